#pragma once
/// \file
/// Iteration times of a pipeline at given clocks, with stages slower or faster than profiled.

#include <cstddef>
#include <span>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/plan/policy/plan_table.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/pipeline.h"

namespace harpe::plan {

/// The makespans of a pipeline. All times follow from the whole graph: dependencies, transfers, and
/// earliest starts. Immutable. O(nodes + dependencies) for each time.
class PipelineTimes {
 public:
  /// \param pipeline  must outlive this object
  PipelineTimes(const Pipeline& pipeline, const Profile& profile);

  /// Returns the makespan at all-max.
  /// \param factors  time of each stage's computations relative to the profile; empty: 1
  Seconds at_all_max(std::span<const double> factors = {}) const;
  /// Returns the makespan at the settings of a plan of this pipeline; an instruction whose setting
  /// the profile lacks takes its all-max time.
  Seconds at(const TablePlan& plan, std::span<const double> factors = {}) const;

 private:
  template <class Time>
  Seconds makespan(std::span<const double> factors, Time time) const;

  const Pipeline* pipeline_;
  std::vector<std::vector<OperatingPoint>> points_;  ///< the points of each kind of instruction
  std::vector<std::size_t> kind_;                    ///< the index in `points_` of each node
};

}  // namespace harpe::plan
