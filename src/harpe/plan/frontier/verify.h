#pragma once
/// \file
/// An independent, small check of a plan and of its certificate. It runs no solver and has no code
/// in common with what makes plans: it works out from the schedule itself (schedule/rules.h) what
/// waits for what, recomputes from the profile what the plan claims, and from the certificate's
/// flow the lower bound by weak duality. What is accepted is decided without rounding (exact.h), so
/// that no choice of numbers makes a bound look higher than it is.
///
///   const auto found = harpe::verify_plan(plan, schedule, profile, &certificate);
///   for (const std::string& error : found.diagnostics) std::puts(error.c_str());  // none: all
///   holds

#include <optional>
#include <string>
#include <vector>

#include "harpe/plan/frontier/certificate.h"
#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/profile/profile.h"

namespace harpe {

/// What `verify_plan` found. `diagnostics` is empty when everything holds.
struct Verification {
  std::vector<std::string> diagnostics;
  Seconds makespan;  ///< recomputed, every instruction as early as can be; rounded up
  Joules energy;     ///< recomputed; rounded up
  /// By the certificate's flow, for plans that end by the makespan, or by `Plan::iteration_time` if
  /// that is later; rounded down, and never above `energy`.
  std::optional<Joules> proven_bound;
  std::optional<Joules> relaxed_optimum;  ///< cost of the certificate's starts and ends
  /// Fixed-time instructions without a row in the profile: their time and energy are the plan's
  /// word.
  int taken_from_plan = 0;

  /// How far the plan's energy is above what is proven, as a fraction, rounded up; none without a
  /// certificate.
  std::optional<double> proven_gap() const;
};

/// Checks that the plan runs the schedule, every operating point stands in the profile, starts
/// respect what the schedule and the plan's transfers make them wait for, time and energy add up,
/// and, with a certificate, that it is one of the schedule's graph whose flow proves at least the
/// claimed lower bound.
Verification verify_plan(const Plan& plan, const Schedule& schedule, const Profile& profile,
                         const Certificate* certificate);
/// The same for a plan of a schedule known by name, which is generated for its sizes.
Verification verify_plan(const Plan& plan, const Profile& profile, const Certificate* certificate);

}  // namespace harpe
