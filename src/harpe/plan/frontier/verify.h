#pragma once
/// \file
/// An independent, small check of a plan and of its certificate. The check runs no solver and
/// shares no code with the search for plans. It derives the dependencies from the schedule
/// (schedule/rules.h), recomputes time and energy of the plan from the profile, and computes the
/// lower bound from the certificate's flow by weak duality. It sums time, energy and bound without
/// rounding (exact.h), so that no choice of numbers makes a bound look higher than it is.
///
///   const auto found = harpe::verify_plan(plan, schedule, profile, &certificate);
///   for (const std::string& error : found.diagnostics) std::puts(error.c_str());

#include <optional>
#include <string>
#include <vector>

#include "harpe/plan/frontier/certificate.h"
#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/profile/profile.h"

namespace harpe {

/// The result of `verify_plan`. `diagnostics` is empty if all checks pass.
struct Verification {
  std::vector<std::string> diagnostics;
  Seconds makespan;  ///< recomputed, with every instruction as early as possible; rounded up
  Joules energy;     ///< recomputed; rounded up
  /// The bound that the certificate's flow proves for plans that end by the makespan, or by
  /// `Plan::iteration_time` if that is later; rounded down, and never above `energy`.
  std::optional<Joules> proven_bound;
  std::optional<Joules> relaxed_optimum;  ///< cost of the certificate's starts and ends
  /// Number of fixed-time instructions without a row in the profile. Their time and energy are
  /// taken from the plan unchecked.
  int taken_from_plan = 0;

  /// Returns how far the plan's energy is above the proven bound, as a fraction, rounded up;
  /// nullopt without a proven bound.
  std::optional<double> proven_gap() const;
};

/// Checks that the plan runs the schedule, that every operating point is in the profile, that the
/// starts respect the dependencies of the schedule and of the plan's transfers, and that time and
/// energy add up. If a certificate is given, also checks that it fits the schedule's graph and that
/// its flow proves at least the claimed lower bound.
Verification verify_plan(const Plan& plan, const Schedule& schedule, const Profile& profile,
                         const Certificate* certificate);
/// Checks a plan of a named schedule, which is generated for the sizes of the plan.
Verification verify_plan(const Plan& plan, const Profile& profile, const Certificate* certificate);

}  // namespace harpe
