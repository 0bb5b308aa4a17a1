#include "harpe/command/plan_cli/late_replay.h"

#include <cmath>
#include <utility>
#include <vector>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"

namespace harpe::command {
namespace {

constexpr double kLeastShown = 0.005;  // %, the least that two decimals display

/// Returns the saving against all-max, whose clock changes are free as in the table, %.
double saving_of(const Plan& plan, const Planned& planned) {
  return 100 * (1 - plan.iteration_energy / planned.all_max.iteration_energy);
}

/// Returns text such as "saves 12.96 %, not 13.73 %".
/// \param free  at least `late`
std::string saving_words(double late, double free) {
  const auto shown = [](double percent) { return percent_text(std::abs(percent), 2); };
  const bool is_same = shown(late) == shown(free);
  if (late >= kLeastShown)
    return is_same ? "still saves " + shown(late) : "saves " + shown(late) + ", not " + shown(free);
  const bool saves = free >= kLeastShown;
  if (late > -kLeastShown) return "saves nothing" + (saves ? ", not " + shown(free) : "");
  const std::string words = "needs " + shown(late) + " more than all-max";
  if (saves) return words + ", not " + shown(free) + " less";
  if (free > -kLeastShown) return words + ", not the same";
  return is_same ? "still " + words : words + ", not " + shown(free) + " more";
}

}  // namespace

std::optional<Plan> replayed_late(const Frontier& frontier, const Planned& planned) {
  if (planned.free_switching || planned.chosen.clock_changes() == 0) return std::nullopt;
  std::vector<std::vector<Megahertz>> clocks;
  std::vector<std::vector<Knobs>> knobs;
  for (const auto& list : planned.chosen.instructions) {
    auto& of_stage = clocks.emplace_back();
    auto& beside = knobs.emplace_back();
    for (const PlannedInstruction& i : list) {
      of_stage.push_back(i.clock);
      beside.push_back(i.knobs);
    }
  }
  Result<Plan> plan = frontier.plan_of_clocks(clocks, planned.waits_until,
                                              {.switch_latency = kTypicalLatency}, knobs);
  return plan.ok() ? std::optional(*std::move(plan)) : std::nullopt;
}

std::string free_changes_words(const Planned& planned, const std::string& plan) {
  const std::string latency = shortest(1e3 * kTypicalLatency.value) + " ms";
  std::string words = "assumed to be free";
  if (!planned.late_replay) return words;
  const Plan& late = *planned.late_replay;
  words += "; with " + latency + " each " + plan + ' ' +
           saving_words(saving_of(late, planned), saving_of(planned.chosen, planned));
  const double longer = 100 * (late.iteration_time / planned.chosen.iteration_time - 1);
  if (longer >= kLeastShown) words += ", and takes " + percent_text(longer, 2) + " longer";
  return words;
}

Json late_replay_json(const Planned& planned) {
  if (!planned.late_replay) return nullptr;
  const Plan& late = *planned.late_replay;
  return {{"switch_latency_s", kTypicalLatency.value},
          {"iteration_time_s", late.iteration_time.value},
          {"iteration_energy_j", late.iteration_energy.value},
          {"saving_percent", saving_of(late, planned)}};
}

}  // namespace harpe::command
