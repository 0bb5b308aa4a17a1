#include "harpe/report/usage_page.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "harpe/base/text.h"
#include "harpe/report/frame.h"
#include "harpe/report/markup.h"

namespace harpe::report {
namespace {

constexpr std::size_t kColours = 8;
// Size of the drawing, which is stretched to the width of the page; labels are text beside it, so
// that they are as large on a phone. Height and top match .bars svg in the style sheet.
constexpr double kBarsWidth = 1000, kBarsHeight = 196, kBarsTop = 12;
constexpr std::size_t kTimeLabels = 8;
// Up to this many bars have a limited width, and their sums above them.
constexpr std::size_t kFewBars = 6;
constexpr double kWidestBar = 90, kRoomForSums = 1.12;
constexpr double kSumHeight = 18;  // px from the top of a sum to its bar
// Width of a label on the widest page, as a share of the drawing.
constexpr double kLabelShare = 0.1;
// A table of at most this many columns fits a phone if its words wrap; see .whole of
// the style sheet.
constexpr std::size_t kFewColumns = 5;

using Values = std::vector<double> UsageSeries::*;

/// The highest and the lowest end of stacked bars.
struct Extent {
  double low = 0, high = 0;
};

bool has_few_bars(const UsagePageInput& input) {
  return input.intervals.size() <= kFewBars;
}

/// Position and width of the bar of an interval, in the drawing.
struct BarPlace {
  double x, width;
};

BarPlace place_of(const UsagePageInput& input, std::size_t interval) {
  const double pitch = kBarsWidth / static_cast<double>(input.intervals.size());
  double bar = pitch > 3 ? pitch - 1 : pitch;
  if (has_few_bars(input)) bar = std::min(bar, kWidestBar);
  return {.x = pitch * static_cast<double>(interval), .width = bar};
}

Extent extent_of(const UsagePageInput& input, Values values) {
  Extent extent;
  for (std::size_t i = 0; i < input.intervals.size(); ++i) {
    double above = 0, below = 0;
    for (const UsageSeries& one : input.series) {
      const double value = i < (one.*values).size() ? (one.*values)[i] : 0;
      (value > 0 ? above : below) += value;
    }
    extent.high = std::max(extent.high, above);
    extent.low = std::min(extent.low, below);
  }
  if (extent.high <= extent.low) extent.high = extent.low + 1;
  if (has_few_bars(input)) extent.high *= kRoomForSums;
  return extent;
}

std::string colour_of(std::size_t series) {
  return concat({"c", std::to_string(std::min(series, kColours - 1))});
}

/// Returns the stacked bars of one interval, negative ones below zero. \param y_of  y coordinate of
/// a value
template <class Y>
std::string stack_svg(const UsagePageInput& input, Values values, std::size_t interval, double x,
                      double bar, std::string_view unit, const Y& y_of) {
  std::string svg;
  double above = 0, below = 0;
  for (std::size_t k = 0; k < input.series.size(); ++k) {
    const std::vector<double>& all = input.series[k].*values;
    const double value = interval < all.size() ? all[interval] : 0;
    if (value == 0) continue;
    double& base = value > 0 ? above : below;
    const double top = std::min(y_of(base), y_of(base + value));
    const double size = std::max(y_of(base), y_of(base + value)) - top;
    base += value;
    svg +=
        concat({"<rect class=\"", colour_of(k), "\" x=\"", coordinate(x), "\" y=\"",
                coordinate(top), "\" width=\"", coordinate(bar), "\" height=\"", coordinate(size),
                "\"><title>", escape(input.series[k].name), ", ", escape(input.intervals[interval]),
                ": ", fixed(value, value < 10 ? 4 : 1), " ", unit, "</title></rect>\n"});
  }
  return svg;
}

double paused_share(const UsageSeries& series, std::size_t interval) {
  return interval < series.paused.size() ? series.paused[interval] : 0;
}

bool has_pauses(const UsagePageInput& input) {
  return std::ranges::any_of(input.series, [](const UsageSeries& one) {
    return std::ranges::any_of(one.paused, [](double share) { return share > 0; });
  });
}

/// Returns the background of an interval with paused jobs; the longest pause sets the darkness.
std::string pause_svg(const UsagePageInput& input, std::size_t interval, double x, double pitch) {
  double most = 0;
  std::string who;
  for (const UsageSeries& one : input.series) {
    const double share = paused_share(one, interval);
    if (share <= 0) continue;
    most = std::max(most, share);
    who += concat(
        {who.empty() ? "" : ", ", one.name, " ", fixed(100 * std::min(share, 1.0), 0), " %"});
  }
  if (most <= 0) return {};
  constexpr double kLightest = 0.05, kDarkest = 0.22;
  const double opacity = kLightest + (kDarkest - kLightest) * std::min(1.0, most);
  return concat({"<rect class=\"pause\" x=\"", coordinate(x), "\" y=\"0\" width=\"",
                 coordinate(pitch), "\" height=\"", coordinate(kBarsHeight), "\" fill-opacity=\"",
                 fixed(opacity, 3), "\"><title>", escape(input.intervals[interval]),
                 ": paused: ", escape(who), " of it</title></rect>\n"});
}

/// Returns three digits, or all digits before the point if there are more: "0.458", "1257".
std::string sum_text(double value) {
  const double size = std::abs(value);
  const int before_point = size >= 1 ? 1 + static_cast<int>(std::floor(std::log10(size))) : 0;
  return fixed(value, std::max(0, 3 - before_point));
}

/// Returns labels with the sum of each interval, above its bar.
template <class Y>
std::string sum_labels(const UsagePageInput& input, Values values, std::string_view unit,
                       const Y& y_of) {
  std::string labels;
  for (std::size_t i = 0; i < input.intervals.size(); ++i) {
    double sum = 0, above = 0;
    for (const UsageSeries& one : input.series) {
      const double value = i < (one.*values).size() ? (one.*values)[i] : 0;
      sum += value;
      above += std::max(0.0, value);
    }
    labels += concat(
        {"<span class=\"sum\" style=\"left:", coordinate(100 * place_of(input, i).x / kBarsWidth),
         "%;top:", coordinate(std::max(0.0, y_of(above) + kBarsTop - kSumHeight)), "px\">",
         sum_text(sum), " ", escape(unit), "</span>\n"});
  }
  return labels;
}

/// Returns labels with the start times of some intervals. Narrower pages show every other label,
/// phones every fourth.
std::string time_labels(const UsagePageInput& input) {
  std::string labels;
  const std::size_t every =
      std::max<std::size_t>(1, (input.intervals.size() + kTimeLabels - 1) / kTimeLabels);
  for (std::size_t i = 0; i < input.intervals.size(); i += every) {
    const double share = static_cast<double>(i) / static_cast<double>(input.intervals.size());
    const std::size_t number = i / every;
    if (number > 0 && share > 1 - kLabelShare) break;
    const char* rank = number % 2 == 1 ? " o h" : number % 4 == 2 ? " h" : "";
    labels += concat({"<span class=\"x", rank, "\" style=\"left:", coordinate(100 * share), "%\">",
                      escape(input.intervals[i]), "</span>\n"});
  }
  return labels;
}

/// Returns a chart of stacked bars. \param unit  "kWh"
std::string bars_chart(const UsagePageInput& input, Values values, std::string_view title,
                       std::string_view unit, bool show_gaps) {
  const Extent extent = extent_of(input, values);
  const auto y_of = [&](double value) {
    return kBarsHeight * (extent.high - value) / (extent.high - extent.low);
  };
  std::string svg = concat(
      {"<svg viewBox=\"0 0 ", coordinate(kBarsWidth), " ", coordinate(kBarsHeight),
       "\" preserveAspectRatio=\"none\" role=\"img\">\n<title>", escape(title), "</title>\n"});
  std::string labels;
  const Ticks marks = ticks(extent.low, extent.high, 6);
  for (const double value : marks.values) {
    const std::string y = coordinate(y_of(value));
    svg += concat({"<path class=\"", value == 0 ? "zero" : "rule", "\" d=\"M0 ", y, "H",
                   coordinate(kBarsWidth), "\"/>\n"});
    labels += concat(
        {"<span class=\"y\" style=\"top:", y, "px\">", fixed(value, marks.decimals), "</span>\n"});
  }
  const double pitch = kBarsWidth / static_cast<double>(input.intervals.size());
  for (std::size_t i = 0; i < input.intervals.size(); ++i) {
    const auto [x, bar] = place_of(input, i);
    svg += pause_svg(input, i, x, pitch);
    svg += stack_svg(input, values, i, x, bar, unit, y_of);
    if (show_gaps && i < input.gaps.size() && input.gaps[i]) {
      svg += concat({"<rect class=\"gap\" x=\"", coordinate(x), "\" y=\"", coordinate(y_of(0) + 1),
                     "\" width=\"", coordinate(bar), "\" height=\"4\"><title>",
                     escape(input.intervals[i]),
                     ": a part of the energy has no intensity</title></rect>\n"});
    }
  }
  if (has_few_bars(input)) labels += sum_labels(input, values, unit, y_of);
  return concat(
      {"<div class=\"bars\">\n", svg, "</svg>\n", labels, time_labels(input), "</div>\n"});
}

std::string legend_of(const UsagePageInput& input) {
  std::string legend = "<ul class=\"legend\">";
  const std::size_t shown = std::min(input.series.size(), kColours);
  for (std::size_t k = 0; k < shown; ++k) {
    const bool others = k + 1 == kColours && input.series.size() > kColours;
    legend += concat({"<li><i class=\"", colour_of(k), "\"></i>",
                      others ? std::to_string(input.series.size() - k) + " others"
                             : escape(input.series[k].name),
                      "</li>"});
  }
  if (has_pauses(input)) legend += "<li><i class=\"pause\"></i>paused</li>";
  return legend + "</ul>\n";
}

std::string table_markup(const UsagePageInput& input) {
  const bool is_whole = !input.table.empty() && input.table.front().size() <= kFewColumns;
  std::string table = concat({"<div class=\"scroll", is_whole ? " whole" : "",
                              "\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table>\n"});
  for (std::size_t r = 0; r < input.table.size(); ++r) {
    const bool head = r == 0, total = input.has_total && r + 1 == input.table.size();
    table += head ? "<thead><tr>" : r == 1 ? "<tbody>\n<tr" : "<tr";
    if (!head) table += total ? " class=\"total\">" : ">";
    for (std::size_t i = 0; i < input.table[r].size(); ++i) {
      const char* tag = head || i == 0 ? "th" : "td";
      table += concat({"<", tag,
                       head     ? " scope=\"col\""
                       : i == 0 ? " scope=\"row\""
                                : "",
                       ">", escape(input.table[r][i]), "</", tag, ">"});
    }
    table += head ? "</tr></thead>\n" : "</tr>\n";
  }
  return table + "</tbody></table></div>\n";
}

/// Returns the markup of a sentence, whose lines never break within a number.
std::string prose_markup(std::string_view text) {
  constexpr std::string_view kNoBreak = "\u00a0";
  std::string markup;
  for (const std::string& word : unbroken_words(text)) {
    if (!markup.empty()) markup += ' ';
    for (const char c : word) markup += c == ' ' ? kNoBreak : std::string_view(&c, 1);
  }
  return escape(markup);
}

std::string list_markup(std::string_view heading, const std::vector<std::string>& lines) {
  std::string list = concat({"<section><h2>", escape(heading), "</h2>\n<ul class=\"method\">\n"});
  for (const std::string& line : lines) list += concat({"<li>", prose_markup(line), "</li>\n"});
  return list + "</ul></section>\n";
}

std::string figure_markup(const UsagePageInput& input, std::string_view heading,
                          std::string_view chart, std::string_view caption, bool has_legend) {
  return concat({"<section><h2>", heading, "</h2>\n<figure class=\"drawing\">\n", chart,
                 has_legend ? legend_of(input) : std::string(), "<figcaption>", caption, " ",
                 doubt_markup(input.doubt), "</figcaption>\n</figure></section>\n"});
}

std::string charts_markup(const UsagePageInput& input) {
  if (input.intervals.empty()) return {};
  const std::string each =
      input.intervals.size() == 1
          ? concat({" in one interval (", escape(input.interval_length), "), UTC"})
          : concat({" in each ", escape(input.interval_length), ", UTC"});
  const bool several = input.series.size() > 1;
  std::string emissions = "Emissions, by the carbon intensity of the grid.";
  if (std::ranges::find(input.gaps, true) != input.gaps.end()) {
    emissions += " Marked below zero: a part of the energy has no intensity.";
  }
  return concat(
      {figure_markup(
           input, concat({"Energy, ", escape(input.energy_unit), each}),
           bars_chart(input, &UsageSeries::energy, "Energy over time", input.energy_unit, false),
           several ? "Energy used, one colour for each row of the table." : "Energy used.",
           several),
       figure_markup(
           input, concat({"CO2eq of operation, ", escape(input.mass_unit), each}),
           bars_chart(input, &UsageSeries::mass, "Emissions over time", input.mass_unit, true),
           emissions, true)});
}

}  // namespace

std::string usage_page(const UsagePageInput& input) {
  using report::concat;
  using report::escape;
  std::string body =
      concat({"<section aria-label=\"Result\">\n<p class=\"headline long\">",
              report::prose_markup(input.headline), "</p>\n<p class=\"explanation\">",
              report::prose_markup(input.explanation), "</p>\n</section>\n",
              report::charts_markup(input)});
  for (const PageFigure& figure : input.figures) {
    body += report::figure_markup(input, escape(figure.heading), figure.markup,
                                  escape(figure.caption), false);
  }
  body += concat({"<section><h2>", escape(input.table_heading), "</h2>\n",
                  report::table_markup(input), "</section>\n"});
  for (const PageSection& section : input.sections)
    body += report::list_markup(section.heading, section.lines);
  if (!input.method.empty() || input.sections.empty())
    body += report::list_markup("Method", input.method);
  return report::framed_page({.title = input.title,
                              .subtitle = input.subtitle,
                              .banners = input.warnings,
                              .body = body,
                              .source = input.source});
}

}  // namespace harpe::report
