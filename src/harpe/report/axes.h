#pragma once
/// \file
/// The axes of a chart of iteration energy over iteration time.

#include <string_view>

#include "harpe/base/units.h"
#include "harpe/report/markup.h"
#include "harpe/report/svg.h"

namespace harpe::report {

/// A linear map from values to pixels.
struct Axis {
  double low = 0;
  double high = 1;
  double from = 0;
  double to = 1;

  double at(double value) const { return from + (value - low) / (high - low) * (to - from); }
  /// Adds room before `low` and after `high`, as shares of the range.
  static Axis around(double low, double high, double before, double after, double from, double to);
};

struct TimeEnergyAxes {
  Axis time;    ///< seconds; from the left to the right edge of the plot
  Axis energy;  ///< joules; from the bottom to the top edge
  DisplayUnit time_unit, energy_unit;

  double x(Seconds seconds) const { return time.at(seconds.value); }
  double y(Joules joules) const { return energy.at(joules.value); }

  /// Draws both axes with ticks and titles, in the class "axis".
  /// \param energy_title  "iteration energy", whose unit is added
  /// \param title_above   pixels from the title of the energies to the plot
  void draw(SvgWriter& svg, std::string_view energy_title, double title_above) const;
};

}  // namespace harpe::report
