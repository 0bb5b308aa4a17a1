#pragma once
/// \file
/// How late clocks come, learned from what computations take by a plan.
///
/// Where each change of clock comes L late, the computations after it take what `replay_stage`
/// says: longer after a lower clock, shorter after a higher one. The L whose replay is nearest to
/// what was measured, instruction kind by kind on each stage, is how late clocks come, if it
/// explains most of what is measured beyond the plan.

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/plan/policy/plan_table.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/plan/schedule/schedule_work.h"

namespace harpe::training {

/// Not thread-safe.
class LateClocks {
 public:
  /// Adds an iteration by a plan. Forgets iterations by assignments of another version.
  /// \param items  seconds of one instruction of each work item of all stages
  void add(std::uint64_t version, std::vector<double> items);
  std::uint64_t version() const { return version_; }
  /// Returns the median of each work item in the newest iterations; empty if too few are known.
  std::vector<double> measured() const;

  /// The latency that plans count at least; 0 s: nothing was learned.
  Seconds learned() const { return learned_; }
  void learn(Seconds latency) { learned_ = latency; }

 private:
  std::uint64_t version_ = 0;
  std::deque<std::vector<double>> newest_;
  Seconds learned_{0};
};

/// Returns how late each change of clock comes by what was measured of a plan, or nullopt if
/// lateness explains less than three quarters of it.
/// \param measured  seconds of one instruction of each work item; NaN: not known
std::optional<Seconds> latency_of(const Schedule& schedule, const plan::ScheduleWork& work,
                                  const Profile& profile, const plan::TablePlan& plan,
                                  std::span<const double> measured);

}  // namespace harpe::training
