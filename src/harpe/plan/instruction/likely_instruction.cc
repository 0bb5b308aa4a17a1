#include "harpe/plan/instruction/likely_instruction.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/plan/instruction/instruction.h"

namespace harpe::plan {
namespace {

using Kind = InstructionKind;

/// Names that training frameworks and their profilers use, without separators.
constexpr std::pair<std::string_view, Kind> kElsewhere[] = {
    {"f", Kind::kForward},
    {"fwd", Kind::kForward},
    {"fprop", Kind::kForward},
    {"fp", Kind::kForward},
    {"forwardpass", Kind::kForward},
    {"forwardstep", Kind::kForward},
    {"b", Kind::kBackward},
    {"bwd", Kind::kBackward},
    {"bprop", Kind::kBackward},
    {"bp", Kind::kBackward},
    {"backwardpass", Kind::kBackward},
    {"backwardstep", Kind::kBackward},
    {"dgrad", Kind::kBackward},
    {"backwardinput", Kind::kBackward},
    {"w", Kind::kWeight},
    {"wgrad", Kind::kWeight},
    {"weightgrad", Kind::kWeight},
    {"weightgradient", Kind::kWeight},
    {"backwardweight", Kind::kWeight},
    {"recomp", Kind::kRecompute},
    {"recomputation", Kind::kRecompute},
    {"recomputeforward", Kind::kRecompute},
    {"fb", Kind::kForwardBackward},
    {"receive", Kind::kRecv},
    {"allreduce", Kind::kReduce},
    {"reducegrad", Kind::kReduce},
    {"allgather", Kind::kUnshard},
    {"opt", Kind::kOptimizer},
    {"optim", Kind::kOptimizer},
    {"optimizerstep", Kind::kOptimizer},
    {"step", Kind::kOptimizer},
};

}  // namespace

std::optional<std::string> likely_instruction(std::string_view word) {
  std::string bare = lower(word);
  std::erase_if(bare, [](char c) { return c == '_' || c == '-' || c == ' '; });
  const auto same = std::ranges::find(kElsewhere, bare, [](const auto& one) { return one.first; });
  if (same != std::end(kElsewhere)) return std::string(name(same->second));
  std::vector<std::string> names;
  for (int i = 0; i < kInstructionKinds; ++i) {
    const auto kind = static_cast<Kind>(i);
    if (kind != Kind::kSwitch) names.emplace_back(name(kind));
  }
  return nearest(word, names);
}

}  // namespace harpe::plan
