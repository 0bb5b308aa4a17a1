#pragma once
/// \file
/// One clock, or one power limit, for all GPUs of the job and all instructions: the alternatives to
/// a plan. Pure.
///
///   using namespace harpe::plan;
///   const auto clocks = one_setting_curve(frontier.one_setting(), VariedKnob::kClock);
///   const auto rivals = rivals_of(clocks, time, energy, all_max);
///   if (rivals.no_slower) compare(plan, *rivals.no_slower);
///
/// No search is needed: `Frontier::one_setting` replays the schedule at each setting.

#include <optional>
#include <span>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/plan/frontier/frontier.h"

namespace harpe::plan {

/// The control that the whole job sets. All other controls keep their values.
enum class VariedKnob : unsigned char { kClock, kPowerLimit };

/// The wait of an iteration for a straggler.
struct StragglerWait {
  Seconds until{0};  ///< iteration time of the straggler; 0 if there is none
  Watts power{0};    ///< total power of all waiting GPUs of the pipeline
};

/// Returns the points that no other beats in both time and energy, fastest first; both include the
/// wait. O(n log n).
std::vector<OneSettingPoint> best_points(std::vector<OneSettingPoint> points,
                                         const StragglerWait& wait = {});

/// Returns the `best_points` among the points that vary only `knob`. Of several clocks at one power
/// limit, takes the highest: a limit leaves the choice of the clock to the GPU. O(n log n).
std::vector<OneSettingPoint> one_setting_curve(std::vector<OneSettingPoint> points, VariedKnob knob,
                                               const StragglerWait& wait = {});

/// The points of a curve that a plan is compared with.
struct Rivals {
  /// Point of least energy that ends by `time`, within 0.1 %; nullopt if all are slower.
  std::optional<OneSettingPoint> no_slower;
  /// Fastest point that takes at least 0.1 % less energy than all-max; nullopt if `no_slower` does,
  /// or if there is none.
  std::optional<OneSettingPoint> next_cheaper;
  /// Fastest point that takes no more energy than the plan; nullopt if `no_slower` does, if it is
  /// the setting of `next_cheaper`, or if there is none.
  std::optional<OneSettingPoint> as_cheap;
};
/// \param curve         fastest first
/// \param time, energy  of an iteration by the plan
/// \param all_max       energy of an iteration at all-max
Rivals rivals_of(std::span<const OneSettingPoint> curve, Seconds time, Joules energy,
                 Joules all_max);

}  // namespace harpe::plan
