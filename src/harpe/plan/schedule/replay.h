#pragma once
/// \file
/// When the instructions of a schedule start: its stages work through their lists and wait for what
/// the others send. No graph and no search; a second opinion on what is computed from one.

#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/plan/schedule/transfers.h"

namespace harpe::plan {

struct Replay {
  std::vector<std::vector<Seconds>> start;  ///< as the lists of the schedule
  Seconds makespan;
};

/// Every instruction starts as soon as the rules of pipeline parallelism (rules.h) and the
/// transfers let it. Fails when the schedule or the transfers are not valid, and when stages wait
/// for each other in a circle: the message says for what, and names the blocking sends that never
/// end.
/// \param durations  one for each instruction, as the lists of the schedule
/// O(instructions), but for what is looked at again while a stage waits.
Result<Replay> replay(const Schedule& schedule, const Transfers& transfers,
                      const std::vector<std::vector<Seconds>>& durations);

}  // namespace harpe::plan
