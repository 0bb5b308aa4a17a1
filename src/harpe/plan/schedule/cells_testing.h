#pragma once
/// \file
/// Schedules with sends and receives added, for tests.

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "harpe/plan/schedule/schedule.h"

namespace harpe::plan {

/// Returns the schedule with a recv directly before each computation that needs data of another
/// stage, and a send directly after each computation that provides such data.
/// \param within_stages  also between parts on one stage
inline Schedule with_cells(Schedule schedule, bool within_stages = false) {
  const int model_parts = schedule.parts() / schedule.copies;
  const auto travels = [&](int from, int to) {
    if (std::min(from, to) < 0 || std::max(from, to) >= schedule.parts()) return false;
    return from / model_parts == to / model_parts &&
           (within_stages || schedule.placement[from] != schedule.placement[to]);
  };
  for (std::vector<Instruction>& list : schedule.lists) {
    std::vector<Instruction> whole;
    for (const Instruction& i : list) {
      const bool is_block = i.kind == InstructionKind::kForwardBackward;
      const bool forward = is_block || i.kind == InstructionKind::kForward;
      const bool backward = is_block || i.kind == InstructionKind::kBackward ||
                            i.kind == InstructionKind::kRecomputeBackward;
      const auto cell = [&](InstructionKind kind, bool gradient) {
        const bool second = gradient && is_block;
        whole.push_back({.kind = kind,
                         .part = second ? i.backward_part : i.part,
                         .micro_batch = second ? i.backward_micro_batch : i.micro_batch,
                         .gradient = gradient});
      };
      const int back = is_block ? i.backward_part : i.part;
      if (forward && travels(i.part - 1, i.part)) cell(InstructionKind::kRecv, false);
      if (backward && travels(back + 1, back)) cell(InstructionKind::kRecv, true);
      whole.push_back(i);
      if (forward && travels(i.part, i.part + 1)) cell(InstructionKind::kSend, false);
      if (backward && travels(back, back - 1)) cell(InstructionKind::kSend, true);
    }
    list = std::move(whole);
  }
  return schedule;
}

/// Returns the same schedule with some of the sends and receives left out, and some sends later and
/// some receives earlier.
/// \param below  returns a random number from 0 to n - 1
inline Schedule with_random_cells(const Schedule& without, const std::function<int(int)>& below) {
  Schedule schedule = with_cells(without, below(4) == 0);
  const int left_out = below(2) == 0 ? 0 : 1 + below(4);  // of 8
  const int moved = below(2) == 0 ? 0 : 1;                // of 8
  const auto is_cell = [](const Instruction& i) {
    return i.kind == InstructionKind::kSend || i.kind == InstructionKind::kRecv;
  };
  for (std::vector<Instruction>& list : schedule.lists) {
    std::erase_if(list, [&](const Instruction& i) { return is_cell(i) && below(8) < left_out; });
    for (int n = 0; n < static_cast<int>(list.size()); ++n) {
      if (!is_cell(list[n]) || below(8) >= moved) continue;
      const int step = list[n].kind == InstructionKind::kSend ? 1 : -1;
      const int to = std::clamp(n + step * (1 + below(3)), 0, static_cast<int>(list.size()) - 1);
      for (int at = n; at != to; at += step) std::swap(list[at], list[at + step]);
    }
  }
  return schedule;
}

}  // namespace harpe::plan
