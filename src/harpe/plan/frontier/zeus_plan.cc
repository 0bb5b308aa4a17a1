#include <utility>

#include "harpe/base/text.h"
#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/profile/profile.h"

namespace harpe {

Result<std::string> zeus_plan(const Plan& plan) {
  if (plan.has_knobs()) {
    return Error::invalid(
        "a plan for Zeus has only clocks, but this plan sets memory clocks, power limits or "
        "labels, "
        "too");
  }
  if (plan.runs_in_parts()) {
    return Error::invalid(
        "a plan for Zeus has a clock for each instruction of the schedule, but this plan splits "
        "some of them");
  }
  std::string text = "[\n";
  Joules effective{0};
  for (std::size_t stage = 0; stage < plan.instructions.size(); ++stage) {
    text += '[';
    const char* separator = "";
    for (const PlannedInstruction& i : plan.instructions[stage]) {
      effective += i.energy - plan.blocking_power[stage] * i.time;
      if (is_fixed_time(i.kind)) continue;
      text += std::exchange(separator, ", ");
      text += "('" + std::string(name(i.kind)) + "', " + std::to_string(i.clock.value) + ")";
    }
    text += "],\n";
  }
  const auto joules = [&](Joules energy) { return shortest(energy.value); };
  return text + "]\n# Iteration 0 cost change: 0.0\n# Iteration 0 total cost: " +
         joules(effective * plan.gpus_per_stage) +
         "\n# Iteration 0 total cost with P2P: " + joules(plan.iteration_energy) +
         "\n# Iteration time: " + shortest(plan.iteration_time.value) + " s\n" +
         (plan.synthetic ? "# " + std::string(kSyntheticRemark) + "\n" : "");
}

}  // namespace harpe
