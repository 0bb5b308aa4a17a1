#include "harpe/report/usage_page.h"

#include <algorithm>
#include <string_view>

#include "harpe/report/markup.h"
#include "harpe/report/svg.h"

namespace harpe::report {
namespace {

constexpr std::size_t kColours = 8;
// Of the drawing, which is stretched to the width that the page has; labels are text beside it, so
// that they are as large on a phone. The height is that of .bars svg.
constexpr double kBarsWidth = 1000, kBarsHeight = 196;
constexpr std::size_t kTimeLabels = 8;
// Of the drawing, as much as a label takes where the page is widest.
constexpr double kLabelShare = 0.1;

constexpr std::string_view kUsageStyle = R"css(
:root { color-scheme: light dark; --ground: #fff; --ink: #1a1a1a; --soft: #5c5c5c; --rule: #d8d8d4;
  --ours: #00677f; --warn: #8c1d18; --c0: #00677f; --c1: #c8792b; --c2: #6b8f3c; --c3: #8a5a9e;
  --c4: #b8495c; --c5: #3f6fb5; --c6: #8b7a4f; --c7: #8a8a8a; }
@media (prefers-color-scheme: dark) { :root { --ground: #16181a; --ink: #ececea; --soft: #a9aba8;
  --rule: #3a3d40; --ours: #58b9d1; --warn: #f0a19c; --c0: #58b9d1; --c1: #e3a05c; --c2: #9cc268;
  --c3: #bd93d1; --c4: #e2808f; --c5: #86abe6; --c6: #c2b184; --c7: #9a9c9a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui,
  -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', 'Liberation Sans', Arial,
  sans-serif; font-variant-numeric: tabular-nums; }
main { max-width: 1244px; margin: 0 auto; padding: 36px 32px 56px; }
h1, h2, p, ul { margin: 0; }
h1 { font-size: 17px; font-weight: 600; display: inline; }
h2 { font-size: 15px; font-weight: 600; }
section { margin-top: 30px; }
.mark { color: var(--ours); font-weight: 600; letter-spacing: .04em; display: inline; margin-right: 14px; }
.subtitle, .explanation, .note { color: var(--soft); font-size: 13.5px; }
.headline { margin-top: 18px; font-size: clamp(20px, 2.6vw, 30px); line-height: 1.22; font-weight: 300;
  letter-spacing: -.01em; max-width: 62ch; text-wrap: balance; }
.explanation { margin-top: 12px; max-width: 90ch; font-size: 15px; }
.warning { margin-top: 14px; padding: 6px 0 6px 12px; border-left: 3px solid var(--warn);
  color: var(--warn); font-weight: 600; max-width: 100ch; }
.bars { position: relative; height: 236px; margin: 6px 8px 0 64px; font-size: 12px; line-height: 16px;
  color: var(--soft); }
.bars svg { display: block; position: absolute; top: 12px; width: 100%; height: 196px; overflow: visible; }
.bars span { position: absolute; white-space: nowrap; }
.bars .y { right: 100%; margin: 4px 8px 0 0; } .bars .x { bottom: 4px; }
@media (max-width: 900px) { .bars .o { display: none; } }
@media (max-width: 560px) { .bars .h { display: none; } .bars { margin-left: 52px; }
  main { padding: 20px 16px 40px; } }
svg path { vector-effect: non-scaling-stroke; }
svg .rule { stroke: var(--rule); stroke-width: 1; shape-rendering: crispEdges; }
svg .zero { stroke: var(--soft); stroke-width: 1; shape-rendering: crispEdges; }
svg .gap { fill: var(--warn); } svg .pause { fill: var(--ink); }
i.pause { background: var(--ink); opacity: .22; }
.c0 { fill: var(--c0); background: var(--c0); } .c1 { fill: var(--c1); background: var(--c1); }
.c2 { fill: var(--c2); background: var(--c2); } .c3 { fill: var(--c3); background: var(--c3); }
.c4 { fill: var(--c4); background: var(--c4); } .c5 { fill: var(--c5); background: var(--c5); }
.c6 { fill: var(--c6); background: var(--c6); } .c7 { fill: var(--c7); background: var(--c7); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; font-size: 13px; color: var(--soft); margin-top: 8px;
  padding: 0; list-style: none; }
.legend i { display: inline-block; width: 11px; height: 11px; margin-right: 7px; }
.scroll { overflow-x: auto; margin-top: 10px; border-top: 1px solid var(--ink); border-bottom: 1px solid var(--rule); }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th, td { padding: 4px 0 4px 18px; text-align: right; font-weight: 400; white-space: nowrap; }
th:first-child { padding-left: 2px; text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 14ch; }
thead th { color: var(--soft); border-bottom: 1px solid var(--rule); }
tbody tr + tr > * { border-top: 1px solid var(--rule); }
tr.total > * { font-weight: 600; border-top: 1px solid var(--ink) !important; }
.method { margin-top: 8px; padding-left: 18px; max-width: 110ch; font-size: 13.5px; color: var(--soft); }
.method li + li { margin-top: 4px; }
.method li { overflow-wrap: anywhere; }
@media print { main { padding: 0; } }
)css";

using Values = std::vector<double> UsageSeries::*;

/// Of a stack of bars: what is above and below zero.
struct Extent {
  double low = 0, high = 0;
};

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
  return extent;
}

std::string colour_of(std::size_t series) {
  return concat({"c", std::to_string(std::min(series, kColours - 1))});
}

/// Bars of one interval on each other, negative ones below zero. \param y_of  of a value
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

/// Behind the bars, the darker the longer a job paused.
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

/// When intervals begin, some of them: on narrower pages every other one, on phones every fourth.
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

/// A chart of stacked bars. \param unit  "kWh"
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
  const double bar = pitch > 3 ? pitch - 1 : pitch;
  for (std::size_t i = 0; i < input.intervals.size(); ++i) {
    const double x = pitch * static_cast<double>(i);
    svg += pause_svg(input, i, x, pitch);
    svg += stack_svg(input, values, i, x, bar, unit, y_of);
    if (show_gaps && i < input.gaps.size() && input.gaps[i]) {
      svg += concat({"<rect class=\"gap\" x=\"", coordinate(x), "\" y=\"", coordinate(y_of(0) + 1),
                     "\" width=\"", coordinate(bar), "\" height=\"4\"><title>",
                     escape(input.intervals[i]),
                     ": a part of the energy has no intensity</title></rect>\n"});
    }
  }
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
  std::string table = "<div class=\"scroll\"><table>\n";
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

}  // namespace
}  // namespace harpe::report

namespace harpe {

std::string usage_page(const UsagePageInput& input) {
  using report::concat;
  using report::escape;
  constexpr const char* kHead =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>";
  std::string page = concat(
      {kHead, escape(input.title), " · Harpe</title>\n<style>", report::kUsageStyle,
       "</style>\n</head>\n<body>\n<main>\n<header><p class=\"mark\">Harpe</p><h1>",
       escape(input.title), "</h1>\n<p class=\"subtitle\">", escape(input.subtitle), "</p>\n"});
  for (const std::string& warning : input.warnings) {
    page += concat({"<p class=\"warning\">", escape(warning), "</p>\n"});
  }
  page += concat({"</header>\n<p class=\"headline\">", escape(input.headline),
                  "</p>\n<p class=\"explanation\">", escape(input.explanation), "</p>\n"});
  if (!input.intervals.empty()) {
    const std::string each = concat({" in each ", escape(input.interval_length), ", UTC"});
    page +=
        concat({"<section><h2>Energy, kWh", each, "</h2>\n",
                report::bars_chart(input, &UsageSeries::energy, "Energy over time", "kWh", false),
                "</section>\n<section><h2>CO2eq of operation, ", input.mass_unit, each, "</h2>\n",
                report::bars_chart(input, &UsageSeries::mass, "Emissions over time",
                                   input.mass_unit, true),
                report::legend_of(input), "</section>\n"});
  }
  page += concat({"<section><h2>Table</h2>\n", report::table_markup(input),
                  "</section>\n<section><h2>Method</h2>\n<ul class=\"method\">\n"});
  for (const std::string& line : input.method) page += concat({"<li>", escape(line), "</li>\n"});
  return page + "</ul></section>\n</main>\n</body>\n</html>\n";
}

}  // namespace harpe
