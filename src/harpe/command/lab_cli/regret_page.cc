#include "harpe/command/lab_cli/regret_page.h"

#include <algorithm>

#include "harpe/report/frame.h"
#include "harpe/report/markup.h"

namespace harpe::command {
namespace {

using report::coordinate;
using report::escape;

constexpr double kWidth = 420, kHeight = 260;
constexpr double kLeft = 60, kRight = 12, kTop = 34, kBottom = 36;

struct Way {
  const char* name;
  const char* number;  ///< number of its colour among series
  std::vector<double> RegretChart::* regret;
};
constexpr Way kWays[] = {{"default", "7", &RegretChart::by_default},
                         {"Zeus", "1", &RegretChart::by_zeus},
                         {"Harpe", "0", &RegretChart::by_harpe}};

/// The positions of values in the picture.
struct Scale {
  double recurrences, low, high;
  double x(double recurrence) const {
    return kLeft + recurrence / recurrences * (kWidth - kLeft - kRight);
  }
  double y(double regret) const {
    return kHeight - kBottom - (regret - low) / (high - low) * (kHeight - kTop - kBottom);
  }
};

/// Returns a scale that contains the curves of Zeus and Harpe. The default's curve may leave it.
Scale scale_of(const RegretChart& chart) {
  Scale scale{.recurrences = 1, .low = 0, .high = 0.1};
  for (const Way& way : kWays) {
    const std::vector<double>& regret = chart.*way.regret;
    scale.recurrences = std::max(scale.recurrences, static_cast<double>(regret.size()));
    for (const double value : regret) {
      scale.low = std::min(scale.low, value);
      if (way.regret != &RegretChart::by_default) scale.high = std::max(scale.high, value * 1.1);
    }
  }
  return scale;
}

std::string grid(const Scale& scale) {
  std::string svg;
  const report::Ticks rows = report::ticks(scale.low, scale.high, 5);
  for (const double value : rows.values) {
    const std::string y = coordinate(scale.y(value));
    svg += "<path d=\"M" + coordinate(kLeft) + " " + y + "H" + coordinate(kWidth - kRight) +
           "\" class=\"rule\"/><text x=\"" + coordinate(kLeft - 6) + "\" y=\"" + y +
           "\" dy=\"4\" text-anchor=\"end\">" + report::fixed(value, rows.decimals) + "</text>";
  }
  for (const double value : report::ticks(0, scale.recurrences, 5).values) {
    svg += "<text x=\"" + coordinate(scale.x(value)) + "\" y=\"" +
           coordinate(kHeight - kBottom + 16) + "\" text-anchor=\"middle\">" +
           report::fixed(value, 0) + "</text>";
  }
  const std::string middle = coordinate((kTop + kHeight - kBottom) / 2);
  return svg + "<text x=\"" + coordinate((kLeft + kWidth - kRight) / 2) + "\" y=\"" +
         coordinate(kHeight - 4) +
         "\" text-anchor=\"middle\">trainings of this job so far</text><text x=\"14\" y=\"" +
         middle + "\" text-anchor=\"middle\" transform=\"rotate(-90 14 " + middle +
         ")\">cost above the oracle, in trainings</text>";
}

std::string line(const Scale& scale, const Way& way, const std::vector<double>& regret) {
  std::string path = "M" + coordinate(scale.x(0)) + " " + coordinate(scale.y(0));
  for (std::size_t i = 0; i < regret.size(); ++i) {
    path += "L" + coordinate(scale.x(static_cast<double>(i + 1))) + " " +
            coordinate(scale.y(regret[i]));
  }
  return std::string("<path clip-path=\"url(#plot)\" d=\"") + path + "\" class=\"l" + way.number +
         "\"/>";
}

std::string chart_svg(const RegretChart& chart) {
  const Scale scale = scale_of(chart);
  std::string svg = "<svg viewBox=\"0 0 " + coordinate(kWidth) + " " + coordinate(kHeight) +
                    "\" role=\"img\">\n<title>" +
                    escape("Cost above the oracle for " + chart.name) + "</title>\n" + grid(scale);
  double x = kLeft;
  for (const Way& way : kWays) {
    svg += line(scale, way, chart.*way.regret);
    svg += "<rect x=\"" + coordinate(x) + "\" y=\"10\" width=\"14\" height=\"4\" class=\"c" +
           way.number + "\"/><text x=\"" + coordinate(x + 19) + "\" y=\"16\">" + way.name +
           "</text>";
    x += 80;
  }
  return svg + "</svg>";
}

}  // namespace

std::string regret_page(const RegretPageInput& input) {
  std::string body =
      "<section aria-label=\"Result\">\n<p class=\"headline long\">" + escape(input.headline) +
      "</p>\n<p class=\"explanation\">" + escape(input.explanation) +
      "</p>\n<p class=\"explanation\">The unit is the cost of one training of the oracle: 2 "
      "means that the cost above the oracle so far equals two of its trainings.</p>\n</section>\n"
      "<svg class=\"shared\" width=\"0\" height=\"0\" aria-hidden=\"true\"><clipPath "
      "id=\"plot\"><rect x=\"" +
      coordinate(kLeft) + "\" y=\"" + coordinate(kTop) + "\" width=\"" +
      coordinate(kWidth - kLeft - kRight) + "\" height=\"" + coordinate(kHeight - kTop - kBottom) +
      "\"/></clipPath></svg>\n<div class=\"pictures\">\n";
  for (const RegretChart& chart : input.charts) {
    body += "<figure>" + chart_svg(chart) + "<figcaption><b>" + escape(chart.name) +
            "</b>: " + escape(chart.caption) + "</figcaption></figure>\n";
  }
  return report::framed_page({.title = input.title,
                              .subtitle = input.subtitle,
                              .body = body + "</div>\n",
                              .source = input.source});
}

}  // namespace harpe::command
