#pragma once
/// \file
/// The colour of a power: near the ground's for a GPU that waits, farthest from it for one at full
/// clock.

#include <array>
#include <string>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/plan/frontier/plan.h"

namespace harpe::report {

/// Lightness falls evenly (OKLab) along the scale while the hue runs from cream over amber to dark
/// red, so that order survives colour blindness and a grey print.
class PowerScale {
 public:
  static constexpr int kColours = 64;

  PowerScale(Watts low, Watts high);
  /// Spans the blocking power and every instruction's power of all `plans`, but not what late
  /// clocks cost, which may be much in no time.
  explicit PowerScale(const std::vector<const Plan*>& plans);

  Watts low() const { return low_; }
  Watts high() const { return high_; }
  /// Index of the colour for a power, 0 to kColours - 1.
  int index(Watts power) const;
  /// "#rrggbb".
  static const std::string& colour(int index);
  /// The colour of the border of a block: darker than its own.
  static const std::string& border(int index);
  /// The same on a dark ground, where what draws most is brightest.
  static const std::string& dark_colour(int index);
  static const std::string& dark_border(int index);
  /// Whether dark text cannot be read on the colour, of those for a light ground.
  static bool is_deep(int index) { return index * 9 > kColours * 4; }

 private:
  Watts low_, high_;
};

}  // namespace harpe::report
