#include "harpe/report/axes.h"

#include <algorithm>
#include <cmath>

namespace harpe::report {

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
