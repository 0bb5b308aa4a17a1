#pragma once
/// \file
/// Checks and smoothing of a measured profile before planning with it.
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

/// Relative noise at or above which a profile should be measured again. Undisturbed A40 and A100
/// have at most 0.01 in time and 0.025 in energy.
inline constexpr double kNoisyProfile = 0.05;

/// Findings about the points of one instruction that share their knobs: one curve over the clock.
struct InstructionCheck {
  int stage = 0;
  int chunk = 0;
  InstructionKind kind = InstructionKind::kForward;
  int points = 0;
  int pareto = 0;  ///< number of points that no point of the instruction, with any knobs, beats in
                   ///< both time and effective energy
  int hull = 0;    ///< number of these points on their lower convex hull
  Megahertz fastest, most_efficient;  ///< clocks of least time and of least effective energy
  /// Relative standard deviation of the measured times from a smooth curve over the clock (local
  /// quadratics in logarithms, outliers left out); 0 with fewer than 5 clocks.
  double time_noise = 0;
  double energy_noise = 0;           ///< the same for energy
  std::vector<Megahertz> dominated;  ///< clocks of points beaten in both time and effective energy
  std::vector<Megahertz> missing;    ///< gaps in an otherwise regular clock grid
  std::vector<std::string> suspicious;  ///< one sentence each: the anomaly and its likely cause
  Knobs knobs = {};                     ///< the knobs of all these points
};

struct ProfileCheck {
  std::vector<InstructionCheck> instructions;
  std::vector<std::string>
      notes;  ///< about the profile as a whole: identical stages, kinds only some stages have
};
/// Checks every curve of a profile and the profile as a whole.
/// \pre `blocking_power` is empty or has one value, or as many as the profile has stages
ProfileCheck check_profile(const Profile& profile, const ProfileCheckOptions& options = {});

/// Replaces every instruction's points by values of smooth fits over its clocks; the clocks do not
/// change. Points are fitted separately for each combination of knobs. For noisy measurements, and
/// only on request. With x = clock / highest clock:
///
///   time   = t0 + w / x + bends
///   energy = a + b / x + c x + bends     (that time at a power of static + dynamic x)
///
/// where a bend is r (x - knot) or r (x - knot)^2 above its knot, and models a rising voltage or
/// throttled clocks. Minimizes relative deviations by least squares with Huber's weights, so that
/// outliers have little influence. Adds bends, and moves all knots to the best clocks, as long as
/// the Bayesian information criterion falls. Instructions with fewer than 5 clocks stay unchanged.
Profile fit_profile(const Profile& profile);

}  // namespace harpe
