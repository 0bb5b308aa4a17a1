#pragma once
/// \file
/// A chart of power over time, such as that of an emulated training under two policies. The same
/// input gives the same bytes; all text of the input is escaped.

#include <string>
#include <vector>

#include "harpe/base/units.h"

namespace harpe::report {

struct PowerCurve {
  std::string name;
  bool is_ours = false;
  std::vector<double> watts = {};  ///< mean power of each step
};

struct PowerChart {
  std::string title = {}, subtitle = {};
  std::string doubt = {};  ///< below the subtitle, in the warning colour
  Seconds step{1};
  std::vector<PowerCurve> curves = {};  ///< ours is drawn above the others; at most 7 others
};

/// Returns one SVG document (light background). Each pixel column shows the mean of its steps.
std::string power_chart_svg(const PowerChart& chart);

/// Returns the chart as a part of a page, in the page's colours, without title and subtitle.
std::string power_chart_figure(const PowerChart& chart);

}  // namespace harpe::report
