#pragma once
/// \file
/// The product's policy in an emulated cluster: which plan each pipeline runs, by the objective, as
/// known stragglers and the power cap allow.
///
/// As a job detects it, a straggler counts after a number of slow iterations in a row, and stops
/// counting in the iteration after it has healed. Plans are chosen by `choose_plans`. Under a
/// power cap the plans for the objective stay if they draw no more; otherwise the job runs as fast
/// as the cap allows. Not thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/lab/emulation/emulated_cluster.h"
#include "harpe/plan/objective/objective.h"
#include "harpe/plan/policy/plan_choice.h"
#include "harpe/plan/policy/plan_table.h"

namespace harpe {

class EmulatedPolicy {
 public:
  struct Plans {
    const PlanTable& table;
    std::vector<std::size_t> numbers;  ///< in the cluster, of each plan of the table
    std::size_t all_max = 0;           ///< in the cluster
  };
  /// \param reaction  number of slow iterations in a row after which a straggler counts; 0: it
  ///                  counts at once
  EmulatedPolicy(Plans plans, const Objective& objective, int reaction, EmulatedCluster& cluster);

  /// Chooses the plans of an iteration. Returns true if one of them has changed.
  /// \param slowdowns  of each pipeline, in that iteration
  bool choose(std::span<const double> slowdowns, std::optional<Watts> cap);

  std::span<const std::size_t> plans() const { return plan_of_; }  ///< of each pipeline
  /// True if even the slowest plans were expected to draw more than the cap.
  bool is_above_cap() const { return is_above_cap_; }

 private:
  bool learn(std::span<const double> slowdowns);
  void assign(const Objective& objective);
  Watts expected_power();

  Plans plans_;
  Objective objective_;
  EmulatedCluster& cluster_;
  std::size_t reaction_;
  std::vector<std::vector<double>> past_;  ///< slowdowns of the last iterations, in a ring
  std::size_t next_past_ = 0;
  std::vector<double> known_, learnt_;
  std::vector<SlowPipeline> slow_;
  std::optional<Watts> cap_;
  std::vector<std::size_t> plan_of_;
  bool is_above_cap_ = false;
};

}  // namespace harpe
