#include "harpe/plan/schedule/circle_text.h"

#include <algorithm>

namespace harpe::plan {

std::string instruction_text(const Instruction& instruction) {
  const auto [kind, part, micro_batch, backward_part, backward_micro_batch, gradient] = instruction;
  std::string text(name(kind));
  if (part >= 0) text += " of part " + std::to_string(part);
  if (micro_batch >= 0) text += " micro-batch " + std::to_string(micro_batch);
  const bool is_cell = kind == InstructionKind::kSend || kind == InstructionKind::kRecv;
  if (is_cell && part >= 0) text += " (" + torch_action(instruction) + ")";
  return text;
}

std::string waiting_sends_text(std::span<const Instruction> sends) {
  if (sends.size() < 2) return "";
  constexpr std::size_t kShown = 6;
  const std::size_t shown = std::min(sends.size(), kShown);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const bool is_last = i + 1 == sends.size();
    if (i > 0) text += is_last ? " and " : ", ";
    text += torch_action(sends[i]);
  }
  if (shown < sends.size()) text += " and " + std::to_string(sends.size() - shown) + " more";
  return text + " wait for each other: a blocking send ends with its recv";
}

}  // namespace harpe::plan
