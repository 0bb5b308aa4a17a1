#include "harpe/plan/frontier/plan.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

namespace harpe {
namespace {

bool same_data(const Instruction& a, const Instruction& b) {
  return a.part == b.part && a.micro_batch == b.micro_batch;
}

/// Returns the instruction with these parts; nullopt if there is none.
std::optional<Instruction> whole_of(std::span<const Instruction> parts) {
  if (parts.size() == 1) return parts[0];
  // Every instruction in parts ends in a full backward: `backward`, or `backward` and `weight`.
  const bool has_weight = !parts.empty() && parts.back().kind == InstructionKind::kWeight;
  const std::size_t before = parts.size() - (has_weight ? 2 : 1);
  if (parts.empty() || before > 1) return std::nullopt;
  Instruction whole = parts[before];
  if (whole.kind != InstructionKind::kBackward) return std::nullopt;
  if (has_weight && !same_data(whole, parts.back())) return std::nullopt;
  if (before == 0) return whole;
  const Instruction& first = parts[0];
  if (first.kind == InstructionKind::kRecompute && same_data(first, whole)) {
    whole.kind = InstructionKind::kRecomputeBackward;
    return whole;
  }
  if (first.kind != InstructionKind::kForward) return std::nullopt;
  return Instruction{.kind = InstructionKind::kForwardBackward,
                     .part = first.part,
                     .micro_batch = first.micro_batch,
                     .backward_part = whole.part,
                     .backward_micro_batch = whole.micro_batch};
}

}  // namespace

int Plan::clock_changes() const {
  int changes = 0;
  for (const auto& list : instructions) {
    const PlannedInstruction *first = nullptr, *before = nullptr;
    const auto is_change = [](const PlannedInstruction& from, const PlannedInstruction& to) {
      return from.setting() != to.setting();
    };
    for (const PlannedInstruction& i : list) {
      if (i.clock == Megahertz{0}) continue;  // does not change the setting
      if (first == nullptr) first = &i;
      changes += before != nullptr && is_change(*before, i);
      before = &i;
    }
    // The next iteration begins with the first instruction again.
    changes += before != nullptr && is_change(*before, *first);
  }
  return changes;
}

bool Plan::runs_in_parts() const {
  const auto has_parts = [](const std::vector<PlannedInstruction>& list) {
    return std::ranges::any_of(list, &PlannedInstruction::fused_with_next);
  };
  return std::ranges::any_of(instructions, has_parts);
}

bool Plan::has_knobs() const {
  return std::ranges::any_of(instructions, [](const auto& list) {
    return std::ranges::any_of(list, [](const auto& i) { return !i.knobs.empty(); });
  });
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
  std::vector<std::vector<int>> parts(plan.instructions.size());  // per stage and chunk
  for (int part = 0; part < schedule.parts(); ++part) {
    const int stage = schedule.placement[part];
    if (stage >= 0 && stage < static_cast<int>(parts.size())) parts[stage].push_back(part);
  }
  Diagnostics diagnostics;
  for (std::size_t stage = 0; stage < plan.instructions.size(); ++stage) {
    const auto part_of = [&](int chunk, const PlannedInstruction& i) {
      if (chunk >= 0 && chunk < static_cast<int>(parts[stage].size())) return parts[stage][chunk];
      diagnostics.add("stage " + std::to_string(stage) + " " + std::string(name(i.kind)) +
                      ": chunk " + std::to_string(chunk) + " is not one of the " +
                      std::to_string(parts[stage].size()) + " that the stage has");
      return -1;
    };
    auto& list = schedule.lists.emplace_back();
    list.reserve(plan.instructions[stage].size());
    std::vector<Instruction> fused;  // parts of one whole
    bool goes_on = false;
    for (const PlannedInstruction& i : plan.instructions[stage]) {
      Instruction added{.kind = i.kind, .micro_batch = i.micro_batch, .gradient = i.gradient};
      const bool has_part = !is_fixed_time(i.kind) || i.micro_batch >= 0;
      if (has_part) added.part = part_of(i.chunk, i);
      if (i.kind == InstructionKind::kForwardBackward) {
        added.backward_part = part_of(i.backward_chunk, i);
        added.backward_micro_batch = i.backward_micro_batch;
      }
      const bool is_inside = goes_on && i.kind == InstructionKind::kSwitch;
      if (!is_inside) fused.push_back(added);
      goes_on = i.fused_with_next;
      if (goes_on) continue;
      if (const auto whole = whole_of(fused)) {
        list.push_back(*whole);
      } else {
        diagnostics.add(
            "stage " + std::to_string(stage) + " " + std::string(name(fused[0].kind)) +
            " of micro-batch " + std::to_string(fused[0].micro_batch) +
            " is fused with the next instruction, but a schedule has no such instruction");
      }
      fused.clear();
    }
    if (goes_on) {
      diagnostics.add("stage " + std::to_string(stage) +
                      ": the last instruction is fused with a next one");
    }
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return schedule;
}

}  // namespace harpe
