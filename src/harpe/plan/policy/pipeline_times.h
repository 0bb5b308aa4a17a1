#pragma once
/// \file
/// How long one iteration of a pipeline takes at given clocks, where its stages are slower or
/// faster than the profile says.

#include <cstddef>
#include <span>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/plan/policy/plan_table.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/pipeline.h"

namespace harpe::plan {

/// Immutable. All times follow from the whole graph: dependencies, transfers, and instructions as
/// early as possible. O(nodes + dependencies) each.
class PipelineTimes {
 public:
  /// \param pipeline  must outlive this
  PipelineTimes(const Pipeline& pipeline, const Profile& profile);

  /// \param factors  of the time of each stage's computations over the profile; empty: 1
  Seconds at_all_max(std::span<const double> factors = {}) const;
  /// At the clocks of a plan of this pipeline, or at the highest where the profile lacks one.
  Seconds at(const TablePlan& plan, std::span<const double> factors = {}) const;

 private:
  template <class Time>
  Seconds makespan(std::span<const double> factors, Time time) const;

  const Pipeline* pipeline_;
  std::vector<std::vector<OperatingPoint>> points_;  ///< of each kind of instruction
  std::vector<std::size_t> kind_;                    ///< of each node, among `points_`
};

}  // namespace harpe::plan
