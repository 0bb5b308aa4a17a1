#include "harpe/plan/schedule/fixed_times.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace harpe {
namespace {

bool has_forward(InstructionKind kind) {
  return kind == InstructionKind::kForward || kind == InstructionKind::kForwardBackward;
}

/// Returns true if `times` fit stages whose lists have no such instructions;
/// otherwise adds diagnostics.
bool fits(const Schedule& schedule, InstructionKind kind, const std::vector<Seconds>& times,
          Diagnostics& diagnostics) {
  if (times.empty()) return true;
  const std::string what(name(kind));
  if (times.size() != schedule.lists.size()) {
    diagnostics.add(what + " has " + std::to_string(times.size()) + " times, the schedule " +
                    std::to_string(schedule.lists.size()) + " stages");
    return false;
  }
  bool fits = true;
  for (std::size_t stage = 0; stage < times.size(); ++stage) {
    const bool is_listed = std::ranges::find(schedule.lists[stage], kind, &Instruction::kind) !=
                           schedule.lists[stage].end();
    if (!std::isfinite(times[stage].value) || times[stage] < Seconds{0}) {
      diagnostics.add(what + ": a time is at least 0 s");
    } else if (is_listed && times[stage] > Seconds{0}) {
      diagnostics.add(what + ": the schedule of stage " + std::to_string(stage) +
                      " already has such instructions; put their time into the profile");
    } else {
      continue;
    }
    fits = false;
  }
  return fits;
}

std::vector<Instruction> with_loads(const std::vector<Instruction>& computations) {
  std::vector<Instruction> list;
  for (const Instruction& instruction : computations) {
    if (has_forward(instruction.kind)) {
      list.push_back({.kind = InstructionKind::kLoad,
                      .part = instruction.part,
                      .micro_batch = instruction.micro_batch});
    }
    list.push_back(instruction);
  }
  return list;
}

}  // namespace

Result<Schedule> with_fixed_times(Schedule schedule, const FixedTimes& times) {
  Diagnostics diagnostics;
  if (fits(schedule, InstructionKind::kLoad, times.load, diagnostics)) {
    for (std::size_t stage = 0; stage < times.load.size(); ++stage)
      if (times.load[stage] > Seconds{0}) schedule.lists[stage] = with_loads(schedule.lists[stage]);
  }
  for (const auto& [kind, seconds] : {std::pair{InstructionKind::kReduce, &times.reduce},
                                      {InstructionKind::kOptimizer, &times.optimizer}}) {
    if (!fits(schedule, kind, *seconds, diagnostics)) continue;
    for (std::size_t stage = 0; stage < seconds->size(); ++stage)
      if ((*seconds)[stage] > Seconds{0}) schedule.lists[stage].push_back({.kind = kind});
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return schedule;
}

}  // namespace harpe
