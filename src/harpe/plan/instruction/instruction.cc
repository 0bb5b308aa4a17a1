#include "harpe/plan/instruction/instruction.h"

#include <algorithm>

namespace harpe {
namespace {

constexpr std::array<std::string_view, kInstructionKinds> kNames = {
    "forward",          "backward", "weight",    "recompute", "recompute_backward",
    "forward_backward", "load",     "send",      "recv",      "reduce",
    "unshard",          "reshard",  "optimizer", "switch"};

constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

std::string_view name(InstructionKind kind) {
  return kNames[static_cast<std::size_t>(kind)];
}

std::optional<InstructionKind> instruction_kind(std::string_view name) {
  const auto same = [](char a, char b) { return lower(a) == b; };
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (std::equal(name.begin(), name.end(), kNames[i].begin(), kNames[i].end(), same)) {
      return static_cast<InstructionKind>(i);
    }
  }
  return std::nullopt;
}

}  // namespace harpe
