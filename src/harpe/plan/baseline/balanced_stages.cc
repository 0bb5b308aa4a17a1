#include "harpe/plan/baseline/balanced_stages.h"

#include <algorithm>
#include <string>

namespace harpe::plan {
namespace {

/// The times of a stage's forward at all its clocks, by rising clock.
struct ForwardTimes {
  std::vector<Megahertz> clocks;
  std::vector<Seconds> times;
  std::size_t chosen = 0;  ///< index of its clock
};

Result<ForwardTimes> forward_times(const Frontier& frontier, int stage) {
  ForwardTimes forward;
  for (const OperatingPoint& point :
       frontier.profile().points(stage, 0, InstructionKind::kForward)) {
    if (!point.knobs.empty()) continue;
    forward.clocks.push_back(point.clock);
    forward.times.push_back(point.time);
  }
  if (forward.clocks.size() < 2)
    return Error::invalid(
        "stage " + std::to_string(stage) +
        " has no forward with a choice of clocks, which balancing the stages needs");
  forward.chosen = forward.clocks.size() - 1;
  return forward;
}

/// Lowers the clock to at most `most`, then further while that brings the forward nearer to
/// `target` or makes it faster.
void balance(ForwardTimes& stage, Seconds target, Megahertz most) {
  while (stage.chosen > 0 && stage.clocks[stage.chosen] > most) --stage.chosen;
  const auto distance = [&](std::size_t at) {
    return std::max(stage.times[at] - target, target - stage.times[at]);
  };
  while (stage.chosen > 0 && (distance(stage.chosen - 1) <= distance(stage.chosen) ||
                              stage.times[stage.chosen - 1] < stage.times[stage.chosen])) {
    --stage.chosen;
  }
}

}  // namespace

Result<std::vector<Plan>> balanced_stages(const Frontier& frontier, const PlanOptions& pricing) {
  const Schedule& schedule = frontier.pipeline().schedule();
  std::vector<ForwardTimes> stages;
  for (int s = 0; s < schedule.stages; ++s) stages.push_back(HARPE_TRY(forward_times(frontier, s)));
  const auto heaviest = std::ranges::max_element(
      stages, {}, [](const ForwardTimes& one) { return one.times.back(); });
  std::vector<std::vector<Megahertz>> clocks(stages.size());
  std::vector<int> instructions(stages.size());
  for (int i = 0; i < frontier.pipeline().instructions(); ++i) {
    const PipelineNode& node = frontier.pipeline().nodes()[static_cast<std::size_t>(i)];
    ++instructions[static_cast<std::size_t>(node.stage)];
  }
  std::vector<Plan> plans;
  for (std::size_t at = heaviest->clocks.size(); at-- > 0;) {
    heaviest->chosen = at;
    for (auto stage = stages.begin(); stage != stages.end(); ++stage)
      if (stage != heaviest) balance(*stage, heaviest->times[at], heaviest->clocks[at]);
    for (std::size_t s = 0; s < stages.size(); ++s)
      clocks[s].assign(static_cast<std::size_t>(instructions[s]),
                       stages[s].clocks[stages[s].chosen]);
    plans.push_back(HARPE_TRY(frontier.plan_of_clocks(clocks, Seconds{0}, pricing)));
    if (std::ranges::any_of(stages, [](const ForwardTimes& one) { return one.chosen == 0; })) break;
  }
  return plans;
}

}  // namespace harpe::plan
