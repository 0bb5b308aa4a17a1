#include "harpe/plan/frontier/predict.h"

#include <algorithm>
#include <string>
#include <utility>

#include "harpe/plan/frontier/at_setting.h"
#include "harpe/plan/frontier/stage_replay.h"
#include "harpe/plan/profile/chunks.h"
#include "harpe/plan/schedule/pipeline.h"

namespace harpe {
namespace {

/// A replay of one stage: time and energy of each instruction, including late changes of settings.
class StageReplay {
 public:
  StageReplay(std::span<const PlannedInstruction> list, const Profile& profile, int stage,
              const LatencyByClock& latency, Seconds load = {}, Watts blocking_power = {})
      : list_(list),
        profile_(profile),
        latency_(latency),
        load_(load),
        blocking_power_(blocking_power),
        stage_(stage) {
    for (const PlannedInstruction& i : list_) {
      if (i.clock != Megahertz{0}) gpu_.in_force = i.setting();
    }
    plan::settle(gpu_, [&] {
      for (const PlannedInstruction& i : list_) replay(i);
    });
    changes_ = 0;
  }

  plan::InstructionCost replay(const PlannedInstruction& i) {
    const auto points = profile_.points(stage_, i.chunk, i.kind);
    plan::InstructionCost cost = on_time(points, i);
    if (i.clock != Megahertz{0}) {
      changes_ += gpu_.request(i.setting(), latency_.to(i.clock)) ? 1 : 0;
      if (!gpu_.pending.empty()) {
        cost = plan::run_instruction(gpu_, [&](const InstructionSetting& setting) {
          const auto point = plan::at_setting(points, setting);
          return point ? plan::InstructionCost{point->time, point->energy} : on_time(points, i);
        });
      }
    } else {
      gpu_.pass(cost.time);
    }
    const bool loads =
        i.kind == InstructionKind::kForward || i.kind == InstructionKind::kForwardBackward;
    if (loads) cost = {cost.time + load_, cost.energy + blocking_power_ * load_};
    return cost;
  }

  std::size_t clock_changes() const { return changes_; }

 private:
  static plan::InstructionCost on_time(std::span<const OperatingPoint> points,
                                       const PlannedInstruction& i) {
    if (points.empty() || (i.clock == Megahertz{0} && !is_fixed_time(i.kind))) {
      return {i.time, i.energy};
    }
    if (is_fixed_time(i.kind)) return {points.front().time, points.front().energy};
    const auto point = plan::at_setting(points, i.setting());
    return {point->time, point->energy};
  }

  std::span<const PlannedInstruction> list_;
  const Profile& profile_;
  LatencyByClock latency_;
  Seconds load_;
  Watts blocking_power_;
  int stage_;
  plan::SettingState<InstructionSetting> gpu_;
  std::size_t changes_ = 0;
};

/// Returns the plan without its `switch` instructions. They run nothing, and the replay computes
/// late changes. As an entry of the list, a `switch` would delay the start of a blocking transfer
/// to the instruction after it.
Plan without_switches(Plan plan) {
  for (auto& list : plan.instructions)
    std::erase_if(list, [](const auto& i) { return i.kind == InstructionKind::kSwitch; });
  return plan;
}

Status check(const Plan& plan, const PredictOptions& options) {
  Diagnostics diagnostics;
  const auto stages = static_cast<std::size_t>(plan.stages);
  if (plan.blocking_power.size() != stages) {
    diagnostics.add("the plan has " + std::to_string(plan.blocking_power.size()) +
                    " blocking powers for " + std::to_string(plan.stages) + " stages");
  }
  if (!options.load.empty() && options.load.size() != stages) {
    diagnostics.add("load: expected one time for each of the " + std::to_string(plan.stages) +
                    " stages, found " + std::to_string(options.load.size()));
  }
  const auto is_time = [](Seconds time) { return time.value >= 0 && time.value < 1e9; };
  if (!std::ranges::all_of(options.load, is_time))
    diagnostics.add("load times must not be negative");
  for (const LatencyByClock::Entry& entry : options.switch_latency.entries()) {
    if (is_time(entry.latency)) continue;
    diagnostics.add("the switch latency must not be negative");
    break;
  }
  if (!is_time(options.fixed_extra)) diagnostics.add("the fixed extra must not be negative");
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

}  // namespace

Result<Prediction> predict(const Plan& with_switches, const Profile& profile,
                           const PredictOptions& options) {
  const Plan plan = without_switches(with_switches);
  auto schedule = HARPE_TRY(schedule_of(plan));
  const auto pipeline =
      HARPE_TRY(Pipeline::build(std::move(schedule), options.transfers.value_or(plan.transfers)));
  HARPE_TRY(check(plan, options));
  const Profile fitting = plan::with_chunks(profile, plan.chunks, plan.copies);

  Prediction prediction;
  std::vector<Seconds> durations;
  durations.reserve(pipeline.nodes().size());
  Joules effective{0};
  Watts blocking{0};
  for (int stage = 0; stage < plan.stages; ++stage) {
    const Watts power = plan.blocking_power[stage];
    const Seconds load = options.load.empty() ? Seconds{0} : options.load[stage];
    StageReplay replay(plan.instructions[stage], fitting, stage, options.switch_latency, load,
                       power);
    bool goes_on = false;  // true if the previous instruction is fused with this one
    for (const PlannedInstruction& i : plan.instructions[stage]) {
      const plan::InstructionCost cost = replay.replay(i);
      if (!std::exchange(goes_on, i.fused_with_next)) durations.emplace_back();
      durations.back() += cost.time;
      effective += cost.energy - power * cost.time;
    }
    prediction.clock_changes += replay.clock_changes();
    blocking += power;
  }
  for (std::size_t i = durations.size(); i < pipeline.nodes().size(); ++i) {
    durations.push_back(pipeline.nodes()[i].transfer_time);
  }
  prediction.iteration_time = pipeline.earliest(durations).makespan + options.fixed_extra;
  prediction.iteration_energy =
      (effective + blocking * prediction.iteration_time) * plan.gpus_per_stage;
  return prediction;
}

std::vector<Seconds> replay_stage(std::span<const PlannedInstruction> list, const Profile& profile,
                                  int stage, const LatencyByClock& switch_latency) {
  StageReplay replay(list, profile, stage, switch_latency);
  std::vector<Seconds> times;
  times.reserve(list.size());
  for (const PlannedInstruction& i : list) times.push_back(replay.replay(i).time);
  return times;
}

}  // namespace harpe
