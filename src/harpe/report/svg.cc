#include "harpe/report/svg.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/report/markup.h"
#include "harpe/report/page_files.h"

namespace harpe::report {

namespace {

constexpr std::string_view kTextStyle =
    "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue','Liberation "
    "Sans',Arial,sans-serif;font-size:12px;fill:var(--soft);font-variant-numeric:tabular-nums}"
    ".t{font-size:16px;font-weight:600;fill:var(--ink)}.k{fill:var(--ink)}"
    ".a{fill:var(--ours);font-weight:600}.w{fill:var(--warn);font-weight:600}.e{text-anchor:end}.m{"
    "text-"
    "anchor:middle}";

/// Returns the colour of a name in the first, light block of the page's palette.
std::string_view light_colour(std::string_view name) {
  const std::string_view light = kPageCss.substr(0, kPageCss.find('}'));
  const std::size_t at = light.find(concat({name, ":"}));
  if (at == std::string_view::npos) return "#000";
  const std::size_t from = light.find('#', at);
  return light.substr(from, light.find(';', from) - from);
}

}  // namespace

std::string light_colours(std::string_view css) {
  constexpr std::string_view kOpen = "var(";
  std::string plain;
  while (true) {
    const std::size_t open = css.find(kOpen);
    plain += css.substr(0, open);
    if (open == std::string_view::npos) return plain;
    css.remove_prefix(open + kOpen.size());
    const std::size_t close = css.find(')');
    plain += light_colour(css.substr(0, close));
    css.remove_prefix(close + 1);
  }
}

std::string attribute(std::string_view name, std::string_view value) {
  return concat({" ", name, "=\"", value, "\""});
}

std::string point(double x, double y) {
  return concat({coordinate(x), " ", coordinate(y)});
}

SvgWriter::SvgWriter(double width, double height, std::string_view title, std::string_view style,
                     Ground ground) {
  const std::string w = coordinate(width);
  const std::string h = coordinate(height);
  document_ = concat({"<svg xmlns=\"http://www.w3.org/2000/svg\"", attribute("width", w),
                      attribute("height", h), attribute("viewBox", concat({"0 0 ", w, " ", h})),
                      " role=\"img\">\n<title>", escape(title), "</title>\n<style>"});
  const std::string rules = concat({kTextStyle, style});
  if (ground == Ground::kPage) {
    document_ += concat({rules, "</style>\n"});
  } else {
    document_ += concat(
        {light_colours(rules), "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"});
  }
}

void SvgWriter::text(double x, double y, std::string_view classes, std::string_view content) {
  if (content.empty()) return;
  document_ += concat({"<text", attribute("x", coordinate(x)), attribute("y", coordinate(y))});
  if (!classes.empty()) document_ += attribute("class", classes);
  document_ += concat({">", escape(content), "</text>\n"});
}

void SvgWriter::path(std::string_view classes, std::string_view data) {
  document_ += concat({"<path", attribute("class", classes), attribute("d", data), "/>\n"});
}

void SvgWriter::circle(double x, double y, double radius, std::string_view attributes,
                       std::string_view hover) {
  document_ += concat({"<circle", attribute("cx", coordinate(x)), attribute("cy", coordinate(y)),
                       attribute("r", coordinate(radius)), attributes});
  close("circle", hover);
}

void SvgWriter::rectangle(double x, double y, double width, double height,
                          std::string_view attributes, std::string_view hover) {
  document_ += concat({"<rect", attribute("x", coordinate(x)), attribute("y", coordinate(y)),
                       attribute("width", coordinate(std::max(0.0, width))),
                       attribute("height", coordinate(height)), attributes});
  close("rect", hover);
}

void SvgWriter::close(std::string_view element, std::string_view hover) {
  if (hover.empty()) {
    document_ += "/>\n";
  } else {
    document_ += concat({"><title>", escape(hover), "</title></", element, ">\n"});
  }
}

std::string SvgWriter::finish() && {
  document_ += "</svg>\n";
  return std::move(document_);
}

Axis Axis::around(double low, double high, double before, double after, double from, double to) {
  const double range = high > low ? high - low : std::max(1e-9, std::abs(high));
  return {low - before * range, high + after * range, from, to};
}

void TimeEnergyAxes::draw(SvgWriter& svg, std::string_view energy_title, double title_above) const {
  const double left = time.from, right = time.to, bottom = energy.from, top = energy.to;
  svg.path("axis",
           concat({"M", point(left, top), "V", coordinate(bottom), "H", coordinate(right)}));
  const Ticks times = ticks(time.low / time_unit.divisor, time.high / time_unit.divisor, 8);
  for (const double mark : times.values) {
    const double at = time.at(mark * time_unit.divisor);
    svg.path("axis", concat({"M", point(at, bottom), "v4"}));
    svg.text(at, bottom + 18, "m", fixed(mark, times.decimals));
  }
  svg.text(right, bottom + 34, "e k", concat({"iteration time, ", time_unit.name}));
  const Ticks energies =
      ticks(energy.low / energy_unit.divisor, energy.high / energy_unit.divisor, 6);
  for (const double mark : energies.values) {
    const double at = energy.at(mark * energy_unit.divisor);
    svg.path("axis", concat({"M", point(left, at), "h-4"}));
    svg.text(left - 8, at + 4, "e", fixed(mark, energies.decimals));
  }
  svg.text(left - 60, top - title_above, "k", concat({energy_title, ", ", energy_unit.name}));
}

}  // namespace harpe::report
