#include "harpe/plan/frontier/plan_from_clocks_testing.h"

#include <algorithm>
#include <utility>

namespace harpe::plan {
namespace {

std::string text_of_node(int stage, InstructionKind kind) {
  return "stage " + std::to_string(stage) + " " + std::string(name(kind));
}

/// Chooses the operating point of every instruction of the pipeline.
class Chooser {
 public:
  Chooser(const Pipeline& pipeline, const Profile& profile,
          const std::vector<std::vector<Megahertz>>& clocks, const ClockPlanOptions& options)
      : pipeline_(pipeline), profile_(profile), clocks_(clocks), options_(options) {}

  Result<std::vector<OperatingPoint>> choose() {
    check_lengths();
    std::vector<OperatingPoint> chosen;
    std::size_t next = 0;
    int stage = 0;
    for (const PipelineNode& node : pipeline_.nodes()) {
      if (node.stage < 0 || !diagnostics_.empty()) break;
      if (node.stage != stage) next = 0;
      stage = node.stage;
      const auto points = profile_.points(stage, node.chunk, node.instruction.kind);
      if (is_fixed_time(node.instruction.kind)) {
        chosen.push_back(points.empty() ? OperatingPoint{} : points.front());
        chosen.back().clock = Megahertz{0};
        chosen.back().knobs = {};
      } else {
        const Knobs knobs = options_.knobs.empty() ? Knobs{} : options_.knobs[stage][next];
        chosen.push_back(computation(node, points, {clocks_[stage][next++], knobs}));
      }
    }
    for (const auto& [what, times] : missing_) {
      diagnostics_.add(what + (times > 1 ? " (" + std::to_string(times) + " times)" : ""));
    }
    if (!diagnostics_.empty()) return Error::invalid(std::move(diagnostics_));
    return chosen;
  }

 private:
  void check_lengths() {
    std::vector<std::size_t> computations(pipeline_.schedule().lists.size());
    if (clocks_.size() != computations.size()) {
      diagnostics_.add("expected clocks for " + std::to_string(computations.size()) +
                       " stages, found " + std::to_string(clocks_.size()));
      return;
    }
    for (const PipelineNode& node : pipeline_.nodes()) {
      if (node.stage >= 0) computations[node.stage] += !is_fixed_time(node.instruction.kind);
    }
    for (std::size_t stage = 0; stage < computations.size(); ++stage) {
      if (clocks_[stage].size() == computations[stage]) continue;
      diagnostics_.add(
          "stage " + std::to_string(stage) + ": expected " + std::to_string(computations[stage]) +
          " clocks, one for each computation, found " + std::to_string(clocks_[stage].size()));
    }
    const auto size = [](const auto& list) { return list.size(); };
    if (!options_.knobs.empty() && !std::ranges::equal(options_.knobs, clocks_, {}, size, size)) {
      diagnostics_.add("expected knobs for each clock, or none at all");
    }
  }

  OperatingPoint computation(const PipelineNode& node, std::span<const OperatingPoint> points,
                             const InstructionSetting& setting) {
    if (const OperatingPoint* point = find_point(points, setting)) return *point;
    const std::string what = text_of_node(node.stage, node.instruction.kind);
    if (points.empty()) {
      note_missing("the profile lacks " + what);
      return {};
    }
    const auto [below, above] = nearest_points(points, setting);
    if (options_.interpolate && below != nullptr && above != nullptr) {
      return *at_setting(points, setting);
    }
    note_missing("the profile lacks " + what + " at " + text_of(setting));
    return {};
  }

  void note_missing(const std::string& what) {
    const auto found = std::ranges::find(missing_, what, &std::pair<std::string, int>::first);
    if (found != missing_.end()) {
      ++found->second;
    } else {
      missing_.emplace_back(what, 1);
    }
  }

  const Pipeline& pipeline_;
  const Profile& profile_;
  const std::vector<std::vector<Megahertz>>& clocks_;
  const ClockPlanOptions& options_;
  std::vector<std::pair<std::string, int>> missing_;  // with their counts
  Diagnostics diagnostics_;
};

Plan empty_plan(const Pipeline& pipeline, const Profile& profile, const ClockPlanOptions& options) {
  const Schedule& schedule = pipeline.schedule();
  Plan plan;
  plan.job = options.job;
  plan.schedule = schedule.name;
  plan.synthetic = profile.is_synthetic();
  plan.stages = schedule.stages;
  plan.micro_batches = schedule.micro_batches;
  plan.chunks = schedule.chunks();
  plan.gpus_per_stage = options.gpus_per_stage;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    plan.blocking_power.push_back(options.blocking_power[stage]);
  }
  plan.transfers = pipeline.transfers();
  plan.placement = schedule.placement;
  plan.copies = schedule.copies;
  plan.instructions.resize(static_cast<std::size_t>(schedule.stages));
  return plan;
}

}  // namespace

Result<Plan> plan_from_clocks(const Pipeline& pipeline, const Profile& profile,
                              const std::vector<std::vector<Megahertz>>& clocks,
                              const ClockPlanOptions& options) {
  const std::size_t powers = options.blocking_power.values.size();
  if (powers != 1 && powers != static_cast<std::size_t>(pipeline.schedule().stages)) {
    return Error::invalid("blocking power: expected one value or one for each of the " +
                          std::to_string(pipeline.schedule().stages) + " stages, found " +
                          std::to_string(powers));
  }
  const auto chosen = HARPE_TRY(Chooser(pipeline, profile, clocks, options).choose());

  const auto nodes = pipeline.nodes();
  std::vector<Seconds> durations(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    durations[i] = i < chosen.size() ? chosen[i].time : nodes[i].transfer_time;
  }
  const Timeline timeline = pipeline.earliest(durations);
  Plan plan = empty_plan(pipeline, profile, options);
  Joules effective{0};
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const PipelineNode& node = nodes[i];
    const OperatingPoint& point = chosen[i];
    effective += effective_energy(point, plan.blocking_power[node.stage]);
    const Instruction& instruction = node.instruction;
    const int backward_chunk =
        instruction.backward_part >= 0 ? pipeline.schedule().chunk(instruction.backward_part) : -1;
    plan.instructions[node.stage].push_back(
        {.kind = instruction.kind,
         .chunk = node.chunk,
         .micro_batch = instruction.micro_batch,
         .backward_chunk = backward_chunk,
         .backward_micro_batch = instruction.backward_micro_batch,
         .gradient = instruction.gradient,
         .fused_with_next = node.fused_with_next,
         .clock = point.clock,
         .start = timeline.start[i],
         .time = point.time,
         .energy = point.energy,
         .knobs = point.knobs});
  }
  plan.iteration_time = timeline.makespan;
  Watts blocking{0};
  for (const Watts power : plan.blocking_power) blocking += power;
  plan.iteration_energy = (effective + blocking * plan.iteration_time) * plan.gpus_per_stage;
  return plan;
}

}  // namespace harpe::plan
