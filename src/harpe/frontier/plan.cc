#include "harpe/frontier/plan.h"

#include <string>
#include <utility>

namespace harpe {

int Plan::clock_changes() const {
  int changes = 0;
  for (const auto& list : instructions) {
    Megahertz clock{0};
    for (const PlannedInstruction& i : list) {
      if (i.clock == Megahertz{0}) continue;  // leaves the clock as it is
      changes += clock != Megahertz{0} && i.clock != clock;
      clock = i.clock;
    }
  }
  return changes;
}

bool is_looped(const std::vector<int>& placement, int stages, int chunks) {
  if (placement.size() != static_cast<std::size_t>(stages) * static_cast<std::size_t>(chunks)) {
    return false;
  }
  for (std::size_t part = 0; part < placement.size(); ++part) {
    if (placement[part] != static_cast<int>(part % static_cast<std::size_t>(stages))) return false;
  }
  return true;
}

Result<Schedule> schedule_of(const Plan& plan) {
  Schedule schedule{.name = plan.schedule,
                    .stages = plan.stages,
                    .micro_batches = plan.micro_batches,
                    .placement = plan.placement,
                    .copies = plan.copies,
                    .lists = {}};
  std::vector<std::vector<int>> parts(plan.instructions.size());  // of each stage, by chunk
  for (int part = 0; part < schedule.parts(); ++part) {
    const int stage = schedule.placement[part];
    if (stage >= 0 && stage < static_cast<int>(parts.size())) parts[stage].push_back(part);
  }
  Faults faults;
  for (std::size_t stage = 0; stage < plan.instructions.size(); ++stage) {
    const auto part_of = [&](int chunk, const PlannedInstruction& i) {
      if (chunk >= 0 && chunk < static_cast<int>(parts[stage].size())) return parts[stage][chunk];
      faults.add("stage " + std::to_string(stage) + " " + std::string(name(i.kind)) + ": chunk " +
                 std::to_string(chunk) + " is not one of the " +
                 std::to_string(parts[stage].size()) + " that the stage has");
      return -1;
    };
    auto& list = schedule.lists.emplace_back();
    list.reserve(plan.instructions[stage].size());
    for (const PlannedInstruction& i : plan.instructions[stage]) {
      Instruction& added = list.emplace_back();
      added.kind = i.kind;
      added.micro_batch = i.micro_batch;
      added.gradient = i.gradient;
      const bool has_part = !is_fixed_time(i.kind) || i.micro_batch >= 0;
      if (has_part) added.part = part_of(i.chunk, i);
      if (i.kind != InstructionKind::kForwardBackward) continue;
      added.backward_part = part_of(i.backward_chunk, i);
      added.backward_micro_batch = i.backward_micro_batch;
    }
  }
  if (!faults.empty()) return Error::invalid(std::move(faults));
  return schedule;
}

}  // namespace harpe
