#pragma once
/// \file
/// The plans of an emulated cluster, made from its job.

#include <optional>
#include <string>
#include <vector>

#include "harpe/command/plan_cli/planning.h"
#include "harpe/lab/emulation/cluster_emulation.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/policy/plan_table.h"

namespace harpe::command {

struct EmulateArguments;

/// Reads the job. Ignores its searches and its certificate. Refuses an output folder in the job,
/// and a straggler or a power cap as objective.
Result<PlanJob> read_emulated_job(const EmulateArguments& arguments);

/// The plans of one pipeline, and their inputs.
struct EmulatedJob {
  PlanInputs inputs;
  Frontier frontier;
  Planned planned;
  plan::PlanTable table;
  double limit_slowdown = 1;  ///< factor of the iteration time at all-max under the power limit
};

/// One clock for all GPUs, to compare with.
struct RivalClock {
  Megahertz clock;
  std::string name;  ///< how it was chosen
};
/// Returns the best clock that is no slower than the plan of the objective or, if that plan draws
/// more than a constant power cap, the fastest clock within the cap. Both are chosen without
/// stragglers. Nullopt under a cap that changes.
std::optional<RivalClock> rival_clock(const EmulatedJob& made, const lab::ClusterShape& shape,
                                      const lab::EmulationTerms& terms);

/// Returns the pipeline that the frontier was made for, to emulate it.
lab::EmulatedPipeline emulated_pipeline(const Frontier& frontier, const PlanInputs& inputs,
                                        const PlanJob& job);

/// Plans the job for all possible events in the cluster.
/// \param power_limit  of each GPU
Result<EmulatedJob> plan_job(const PlanJob& job, const lab::ClusterShape& shape,
                             const lab::EmulationTerms& terms, std::optional<Watts> power_limit,
                             Console& console);

}  // namespace harpe::command
