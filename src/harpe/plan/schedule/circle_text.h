#pragma once
/// \file
/// Texts for schedules that cannot run, because their stages wait for each other in a cycle.

#include <span>
#include <string>

#include "harpe/plan/schedule/schedule.h"

namespace harpe::plan {

/// Returns "forward of part 0 micro-batch 1"; for a send or a recv, adds PyTorch's notation: "send
/// of part 0 micro-batch 1 (0SEND_F1)".
std::string instruction_text(const Instruction& instruction);

/// Returns "0SEND_F1 and 1SEND_B0 wait for each other: a blocking send ends with its recv"; empty
/// for fewer than two sends.
std::string waiting_sends_text(std::span<const Instruction> sends);

}  // namespace harpe::plan
