#pragma once
/// \file
/// Start times of a schedule's instructions, by simulation: the stages execute their lists and wait
/// for each other's data. Uses no graph and no search, so that it can check results from a graph.

#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/plan/schedule/transfers.h"

namespace harpe::plan {

struct Replay {
  std::vector<std::vector<Seconds>> start;  ///< the same shape as the lists of the schedule
  Seconds makespan;
};

/// Starts every instruction as soon as the rules of pipeline parallelism (rules.h) and the
/// transfers permit. Fails if the schedule or the transfers are not valid, or if stages wait for
/// each other in a cycle: the message lists the waits, and the blocking sends that never end.
/// \param durations  one for each instruction, in the same shape as the lists of the schedule
/// O(instructions), plus the repeated checks of instructions that have to wait.
Result<Replay> replay(const Schedule& schedule, const Transfers& transfers,
                      const std::vector<std::vector<Seconds>>& durations);

}  // namespace harpe::plan
