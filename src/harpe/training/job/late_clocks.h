#pragma once
/// \file
/// The lateness of clocks, learned from the times of computations by a plan.
///
/// If each change of clock takes effect L late, the computations after it take the times of
/// `replay_stage`: longer after a lower clock, shorter after a higher one. The lateness is the L
/// whose replay is nearest to the measured times of the instruction kinds of each stage, if it
/// explains most of their difference to the plan.

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

  /// Returns the least latency that plans must count; 0 s if nothing was learned.
  Seconds learned() const { return learned_; }
  void learn(Seconds latency) { learned_ = latency; }

 private:
  std::uint64_t version_ = 0;
  std::deque<std::vector<double>> newest_;
  Seconds learned_{0};
};

/// Returns the lateness of clock changes that best explains the measured times by a plan, or
/// nullopt if it explains less than three quarters of their squared differences to the plan.
/// \param measured  seconds of one instruction of each work item; NaN if not known
std::optional<Seconds> latency_of(const Schedule& schedule, const plan::ScheduleWork& work,
                                  const Profile& profile, const plan::TablePlan& plan,
                                  std::span<const double> measured);

}  // namespace harpe::training
