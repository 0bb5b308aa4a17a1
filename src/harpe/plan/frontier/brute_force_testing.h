#pragma once
/// \file
/// The least energy of a small pipeline, found by trying every assignment of operating points: an
/// oracle for `verify_plan`. It shares no code with the solver or the verifier.
///
/// Times are integers without rounding, so that an assignment that ends exactly at the deadline
/// counts. Energies are sums of `long double`, with a limit on their rounding error.

#include <cstdint>
#include <optional>
#include <string>

#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/profile/profile.h"

namespace harpe::plan {

/// The greatest number of assignments that is tried.
inline constexpr std::uint64_t kMostAssignments = std::uint64_t{1} << 18;

/// The true figures of a plan, and of all plans with the same premises.
struct Truth {
  std::string mismatch = {};  ///< why the plan does not run the schedule; empty if it does
  /// False if the times of the case do not fit the integers. Nothing below is known then.
  bool is_known = false;
  long double makespan = 0;  ///< s, of the plan
  long double period = 0;    ///< s, the makespan or the plan's iteration time if that is longer
  long double energy = 0;    ///< J, of the plan in that period, whole pipeline
  /// J and s, of the plan if its settings are as late as the latency of the certificate. None
  /// without a latency.
  std::optional<long double> late_energy = {}, late_makespan = {};
  /// Number of assignments; 0 if there are more than `kMostAssignments` (no optimum is known).
  std::uint64_t assignments = 0;
  /// J, the least of all assignments that end by the period. None if no assignment is known to end
  /// by then, as costs of late settings are rounded up.
  std::optional<long double> optimum = {};
  long double rounding = 0;  ///< J, the largest error of the energies
};

/// Returns the true figures of a plan. O(assignments x (instructions + dependencies)).
/// \param plan     accepted by `verify_plan`
/// \param latency  of the plans that the bound holds for; null if their settings are never late
Truth brute_force(const Plan& plan, const Schedule& schedule, const Profile& profile,
                  const LatencyByClock* latency);

/// Computes times, energies and starts of a plan, its `switch` entries, its iteration time and
/// energy from its settings, so that the verifier finds nothing to refuse.
/// \param latency     0 s for a plan whose settings are never late
/// \param wait_until  the iteration time if the plan ends earlier
/// Returns false if the plan does not run the schedule, or has a setting that was not measured.
bool recost(Plan& plan, const Schedule& schedule, const Profile& profile,
            const LatencyByClock& latency, Seconds wait_until);

}  // namespace harpe::plan
