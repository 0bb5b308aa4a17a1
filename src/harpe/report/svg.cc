#include "harpe/report/svg.h"

#include <algorithm>
#include <utility>

#include "harpe/report/markup.h"

namespace harpe::report {
namespace {

constexpr std::string_view kTextStyle =
    "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue','Liberation "
    "Sans',Arial,sans-serif;font-size:12px;fill:#5c5c5c;font-variant-numeric:tabular-nums}"
    ".t{font-size:16px;font-weight:600;fill:#1a1a1a}.k{fill:#1a1a1a}"
    ".a{fill:#00677f;font-weight:600}.w{fill:#8c1d18;font-weight:600}.e{text-anchor:end}.m{text-"
    "anchor:middle}";

}  // namespace

std::string attribute(std::string_view name, std::string_view value) {
  return concat({" ", name, "=\"", value, "\""});
}

std::string point(double x, double y) {
  return concat({coordinate(x), " ", coordinate(y)});
}

SvgWriter::SvgWriter(double width, double height, std::string_view title, std::string_view style) {
  const std::string w = coordinate(width);
  const std::string h = coordinate(height);
  document_ = concat({"<svg xmlns=\"http://www.w3.org/2000/svg\"", attribute("width", w),
                      attribute("height", h), attribute("viewBox", concat({"0 0 ", w, " ", h})),
                      " role=\"img\">\n<title>", escape(title), "</title>\n<style>", kTextStyle,
                      style, "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"});
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

}  // namespace harpe::report
