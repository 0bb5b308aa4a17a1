#include "harpe/training/emulated_training/emulated_machines.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "harpe/base/check.h"
#include "harpe/plan/frontier/at_setting.h"
#include "harpe/plan/frontier/priced_parts.h"
#include "harpe/plan/profile/chunks.h"

namespace harpe::training {
namespace {

OperatingPoint cost_at(std::span<const OperatingPoint> points, Megahertz clock, double slowness) {
  const std::optional<OperatingPoint> point = plan::at_setting(points, {clock, {}});
  HARPE_CHECK(point, "the costs of a machine lack a computation of its schedule");
  return {point->clock, point->time * slowness, point->energy * slowness};
}

/// Runs an instruction at each clock in turn, as the clocks take effect. The result has the clock
/// at the end.
OperatingPoint run_at(std::span<const OperatingPoint> points, GpuClock& gpu, double slowness) {
  Megahertz last{};
  const plan::InstructionCost cost = plan::run_instruction(gpu, [&](Megahertz clock) {
    const OperatingPoint at_clock = cost_at(points, clock, slowness);
    last = at_clock.clock;
    return plan::InstructionCost{at_clock.time, at_clock.energy};
  });
  return {last, cost.time, cost.energy};
}

}  // namespace

StageRun run_stage(const Schedule& schedule, const Profile& costs, int stage,
                   std::span<const Megahertz> clocks, const StageConditions& conditions) {
  const auto& list = schedule.lists[static_cast<std::size_t>(stage)];
  HARPE_CHECK(clocks.size() == 1 || clocks.size() == list.size(),
              "an assignment has one clock, or one for each instruction");
  StageRun run;
  run.clock = conditions.clock;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (is_fixed_time(list[i].kind)) {
      const auto points = costs.points(stage, 0, list[i].kind);
      run.instructions.push_back(points.empty() ? OperatingPoint{} : points.front());
      run.clock.pass(run.instructions.back().time);
      continue;
    }
    const auto points = costs.points(stage, schedule.chunk(list[i].part), list[i].kind);
    Megahertz asked = clocks.size() == 1 ? clocks.front() : clocks[i];
    if (asked == Megahertz{0}) asked = run.clock.requested();
    const Megahertz clock = std::min(asked, conditions.cap.value_or(asked));
    run.clock.request(clock, conditions.switch_latency);
    run.instructions.push_back(run_at(points, run.clock, conditions.slowness));
    run.throttled |= clock < asked;
  }
  return run;
}

std::vector<InstructionTotals> totals_of(const Schedule& schedule, int stage,
                                         std::span<const OperatingPoint> points) {
  const auto& list = schedule.lists[static_cast<std::size_t>(stage)];
  std::vector<InstructionTotals> all;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (is_fixed_time(list[i].kind)) continue;
    const int chunk = schedule.chunk(list[i].part);
    auto totals = std::ranges::find_if(all, [&](const InstructionTotals& one) {
      return one.kind == list[i].kind && one.chunk == chunk;
    });
    if (totals == all.end()) {
      totals = all.insert(all.end(), {.kind = list[i].kind, .chunk = chunk});
    }
    ++totals->count;
    totals->time += points[i].time;
    totals->energy += points[i].energy;
  }
  return all;
}

EmulatedMachines::EmulatedMachines(const JobSpec& spec, const Profile& truth,
                                   const Options& options)
    : spec_(spec),
      truth_(plan::with_rows_of_wholes(
          spec.schedule, plan::with_chunks(truth, spec.schedule.chunks(), spec.schedule.copies))),
      options_(options),
      pipeline_(*Pipeline::build(spec.schedule, spec.transfers)),
      random_(options.seed),
      running_(static_cast<std::size_t>(spec.shape.groups())) {
  for (const InstructionProfile& entry : truth_.entries()) {
    const bool of_clocks = std::ranges::all_of(
        entry.points, [](const OperatingPoint& point) { return point.knobs.empty(); });
    HARPE_CHECK(of_clocks, "emulated machines have no knob but their clock");
  }
  for (const OperatingPoint& point : truth_.entries().front().points)
    clocks_.push_back(point.clock);
  heal();
}

void EmulatedMachines::heal() {
  slow.clear();
  slowness = [](std::int64_t, int, int) { return 1.0; };
  delay = [](int) { return Seconds{0}; };
  held.clear();
  stall = [](std::int64_t) { return Seconds{0}; };
  energy_factor = [](std::int64_t) { return 1.0; };
  energy_beside = [](std::int64_t) { return Joules{0}; };
}

std::vector<Megahertz> EmulatedMachines::clocks(int stage) const {
  std::vector<Megahertz> clocks = clocks_;
  if (const auto missing = lacking.find(stage); missing != lacking.end()) {
    std::erase_if(clocks, [&](Megahertz clock) {
      return std::ranges::find(missing->second, clock) != missing->second.end();
    });
  }
  return clocks;
}

std::vector<RankCoordinates> EmulatedMachines::places() const {
  std::vector<RankCoordinates> all;
  for (int d = 0; d < spec_.shape.data; ++d)
    for (int s = 0; s < spec_.shape.stages; ++s)
      for (int t = 0; t < spec_.shape.tensor; ++t) all.push_back({d, s, t});
  return all;
}

StageConditions EmulatedMachines::conditions(std::int64_t iteration, int pipeline,
                                             int stage) const {
  StageConditions conditions{.clock = running_[spec_.shape.group(pipeline, stage)]};
  conditions.slowness = slowness(iteration, pipeline, stage);
  if (const auto fixed = slow.find({pipeline, stage}); fixed != slow.end())
    conditions.slowness *= fixed->second;
  if (const auto cap = held.find({pipeline, stage}); cap != held.end())
    conditions.cap = cap->second;
  return conditions;
}

EmulatedMachines::PipelineRun EmulatedMachines::run(std::int64_t iteration, int pipeline,
                                                    const AssignmentOf& assignment_of) {
  PipelineRun run;
  for (int stage = 0; stage < spec_.shape.stages; ++stage) {
    const Megahertz highest = std::ranges::max(clocks(stage));
    StageConditions now = conditions(iteration, pipeline, stage);
    StageConditions at_once = now;
    at_once.clock = {.in_force = now.clock.requested()};
    run.at_all_max.push_back(
        run_stage(spec_.schedule, truth_, stage, std::span(&highest, 1), at_once));
    now.switch_latency = options_.switch_latency;
    if (now.clock.in_force == Megahertz{0})
      now.clock.in_force = std::min(highest, now.cap.value_or(highest));
    const StageAssignment* assignment = assignment_of({pipeline, stage, 0});
    run.stages.push_back(run_stage(
        spec_.schedule, truth_, stage,
        assignment == nullptr ? std::span(&highest, 1) : std::span(assignment->clocks), now));
    running_[spec_.shape.group(pipeline, stage)] = run.stages.back().clock;
  }
  return run;
}

Seconds EmulatedMachines::makespan(const std::vector<StageRun>& stages) const {
  std::vector<Seconds> durations;
  for (const StageRun& stage : stages)
    for (const OperatingPoint& point : stage.instructions) durations.push_back(point.time);
  for (std::size_t i = durations.size(); i < pipeline_.nodes().size(); ++i)
    durations.push_back(pipeline_.nodes()[i].transfer_time);
  return pipeline_.earliest(durations).makespan;
}

std::pair<EmulatedMachines::Iteration, std::vector<IterationReport>> EmulatedMachines::play(
    std::int64_t iteration, const AssignmentOf& assignment_of) {
  const JobShape& shape = spec_.shape;
  Iteration done;
  done.number = iteration;
  std::vector<PipelineRun> runs;
  Seconds busy_at_all_max{0};
  for (int pipeline = 0; pipeline < shape.data; ++pipeline) {
    const PipelineRun& one = runs.emplace_back(run(iteration, pipeline, assignment_of));
    for (const StageRun& stage : one.at_all_max) {
      for (const OperatingPoint& point : stage.instructions) {
        busy_at_all_max += point.time;
        done.all_max_energy += point.energy;
      }
    }
    const Seconds after = options_.overhead + stall(iteration) + delay(pipeline);
    done.time = std::max(done.time, makespan(one.stages) + after);
    done.all_max_time = std::max(done.all_max_time, makespan(one.at_all_max) + after);
  }
  done.all_max_energy +=
      options_.blocking_power * (done.all_max_time * shape.data * shape.stages - busy_at_all_max);
  done.all_max_energy = done.all_max_energy * shape.tensor * energy_factor(iteration) +
                        energy_beside(iteration) * shape.ranks();
  done.of_pipeline.resize(static_cast<std::size_t>(shape.data));
  std::vector<IterationReport> reports;
  for (const RankCoordinates rank : places()) {
    const auto& stages = runs[static_cast<std::size_t>(rank.data)].stages;
    reports.push_back(report(iteration, rank, assignment_of(rank),
                             stages[static_cast<std::size_t>(rank.stage)], done.time));
    done.versions.push_back(reports.back().version);
    done.energy += reports.back().energy;
    done.of_pipeline[static_cast<std::size_t>(rank.data)] += reports.back().energy;
  }
  return {std::move(done), std::move(reports)};
}

double EmulatedMachines::noisy() {
  if (options_.noise <= 0) return 1;
  std::normal_distribution<double> normal(1, options_.noise);
  return normal(random_);
}

IterationReport EmulatedMachines::report(std::int64_t iteration, RankCoordinates rank,
                                         const StageAssignment* assignment, const StageRun& run,
                                         Seconds time) {
  IterationReport report;
  report.coordinates = rank;
  report.iteration = iteration;
  report.time = time;
  report.version = assignment == nullptr ? 0 : assignment->version;
  report.throttled = run.throttled;
  report.instructions = totals_of(spec_.schedule, rank.stage, run.instructions);
  const auto& list = spec_.schedule.lists[static_cast<std::size_t>(rank.stage)];
  const double factor = energy_factor(iteration);
  Seconds busy{0};
  for (std::size_t i = 0; i < list.size(); ++i) {
    busy += run.instructions[i].time;
    if (is_fixed_time(list[i].kind)) report.energy += run.instructions[i].energy * factor;
  }
  for (InstructionTotals& totals : report.instructions) {
    totals.time = totals.time * noisy();
    totals.energy = totals.energy * (noisy() * factor);
    totals.energy_error = totals.energy * options_.noise;
    report.energy += totals.energy;
  }
  report.energy += options_.blocking_power * (time - busy) * factor + energy_beside(iteration);
  return report;
}

}  // namespace harpe::training
