#pragma once
/// \file
/// A second look at a measured profile before planning with it.
///
///   for (const auto& one : harpe::check_profile(profile).instructions) show(one.suspicious);
///   const harpe::Profile smooth = harpe::fit_profile(profile);

#include <string>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/plan/profile/profile.h"

namespace harpe {

struct ProfileCheckOptions {
  std::vector<Watts> blocking_power = {};  ///< one for all stages, or one each; empty: 0 W
};

/// Relative noise from which on a profile should be measured again. Undisturbed A40 and A100 have
/// 0.01 of time and 0.025 of energy at most.
inline constexpr double kNoisyProfile = 0.05;

/// What was found about the points of one instruction with the same knobs: one curve over the
/// clock.
struct InstructionCheck {
  int stage = 0;
  int chunk = 0;
  InstructionKind kind = InstructionKind::kForward;
  int points = 0;
  int pareto = 0;                     ///< points none of the instruction's, with any knobs, beats
                                      ///< in time and effective energy
  int hull = 0;                       ///< points on the lower convex hull of all those
  Megahertz fastest, most_efficient;  ///< clocks of least time and of least effective energy
  /// Relative standard deviation of the measured times about a smooth curve in the clock (local
  /// quadratics in logarithms, outliers left out). 0 with fewer than 5 clocks.
  double time_noise = 0;
  double energy_noise = 0;              ///< the same for energy
  std::vector<Megahertz> dominated;     ///< beaten in both
  std::vector<Megahertz> missing;       ///< gaps in an otherwise regular clock grid
  std::vector<std::string> suspicious;  ///< one sentence each: what looks wrong and why
  Knobs knobs = {};                     ///< of all of the points
};

struct ProfileCheck {
  std::vector<InstructionCheck> instructions;
  std::vector<std::string>
      notes;  ///< about the profile as a whole: identical stages, kinds only some stages have
};
/// Checked: blocking powers are none, one, or as many as the profile has stages.
ProfileCheck check_profile(const Profile& profile, const ProfileCheckOptions& options = {});

/// Replaces every instruction's points by values of smooth fits over its clocks, the clocks
/// unchanged; points with other knobs are fitted by themselves. For noisy measurements, on request
/// only. With x = clock / highest clock:
///
///   time   = t0 + w / x + bends
///   energy = a + b / x + c x + bends     (that time at a power of static + dynamic x)
///
/// where a bend is r (x - knot) or r (x - knot)^2 above its knot: for the voltage that rises, and
/// for clocks that are throttled. By least squares of relative deviations with Huber's weights, so
/// that outliers do not pull; bends are added, and all moved to the clocks that serve best, while
/// the Bayesian information criterion falls. Fewer than 5 clocks are left as they are.
Profile fit_profile(const Profile& profile);

}  // namespace harpe
