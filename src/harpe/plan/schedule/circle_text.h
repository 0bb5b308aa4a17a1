#pragma once
/// \file
/// Texts for schedules that cannot run, as their stages wait for each other in a circle.

#include <span>
#include <string>

#include "harpe/plan/schedule/schedule.h"

namespace harpe::plan {

/// "forward of part 0 micro-batch 1"; a send or a recv also in PyTorch's notation: "send of part 0
/// micro-batch 1 (0SEND_F1)".
std::string instruction_text(const Instruction& instruction);

/// "0SEND_F1 and 1SEND_B0 wait for each other: a blocking send ends with its recv". Empty for fewer
/// than two sends.
std::string waiting_sends_text(std::span<const Instruction> sends);

}  // namespace harpe::plan
