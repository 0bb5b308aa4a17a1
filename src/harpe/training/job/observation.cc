#include "harpe/training/job/observation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/plan/profile/synth.h"

namespace harpe::training {
namespace {

// Fits to single workloads differ from the models by less than these factors, and voltages of
// measured GPUs from each other by less than this step: docs/gpu-models.md.
constexpr double kMemoryFactor = 2, kStaticFactor = 1.5, kVoltageStep = 0.05;
constexpr double kMostMemoryBound = 0.9;
constexpr Watts kNoLimit{1e9};

/// Returns the model scaled to the power that was measured at a clock. Near the power limit the
/// measured power is that of the limit, and the model is not scaled.
GpuModel drawing(GpuModel gpu, Megahertz clock, Watts power) {
  if (!(power > Watts{0}) || power >= gpu.power_limit * (1 - gpu.limit_softness)) return gpu;
  const double x = clock.value / static_cast<double>(gpu.max_clock.value);
  const double scale = power.value / demanded_power(gpu, x);
  gpu.static_power = gpu.static_power * scale;
  gpu.dynamic_power = gpu.dynamic_power * scale;
  return gpu;
}

/// Returns the model's clock nearest to `clock`.
Megahertz nearest_clock(const GpuModel& gpu, Megahertz clock) {
  const int steps = static_cast<int>(
      std::lround((gpu.max_clock.value - clock.value) / static_cast<double>(gpu.clock_step)));
  return {std::clamp(gpu.max_clock.value - steps * gpu.clock_step, gpu.min_clock.value,
                     gpu.max_clock.value)};
}

constexpr double kLeastWeight = 0.01;  // least weight of the newest iteration in the means
constexpr double kLongestCounted = 3;  // times the mean, such as for one with a checkpoint
constexpr double kLeastIdle = 0.02;    // share of waiting time that shows waiting power

bool all_finite(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

/// Returns the weight of the newest of `count` values in their mean.
double weight_of(std::int64_t count) {
  return std::max(1 / static_cast<double>(count), kLeastWeight);
}

void move_to(double& mean, double value, double weight) {
  mean += weight * (value - mean);
}

}  // namespace

GpuModel assumed(GpuModel gpu, Assumption assumption) {
  const bool is_least = assumption == Assumption::kSavesLeast;
  const Watts at_top = gpu.static_power + gpu.dynamic_power;
  gpu.memory_bound = is_least ? gpu.memory_bound / kMemoryFactor : gpu.memory_bound * kMemoryFactor;
  gpu.static_power = is_least ? gpu.static_power * kStaticFactor : gpu.static_power / kStaticFactor;
  gpu.dynamic_power = at_top - gpu.static_power;
  gpu.min_voltage += is_least ? kVoltageStep : -kVoltageStep;
  return gpu;
}

Profile assumed_profile(const Observation& observed, const plan::ScheduleWork& work,
                        const std::vector<ObservedGpu>& gpus, Assumption assumption) {
  std::vector<InstructionProfile> entries;
  bool chunks = false;
  for (int stage = 0; stage < work.stages(); ++stage) {
    const ObservedGpu& of_stage = gpus[static_cast<std::size_t>(stage)];
    GpuModel gpu = assumed(*of_stage.model, assumption);
    if (of_stage.power_limit > Watts{0}) gpu.power_limit = of_stage.power_limit;
    Megahertz highest = gpu.max_clock;
    if (const auto clock = observed.stage(stage).clock) {
      highest = nearest_clock(gpu, *clock);
      gpu.power_limit = kNoLimit;  // the measured clock includes its effect
    }
    const std::vector<plan::WorkItem>& items = work.stage(stage);
    for (std::size_t k = 0; k < items.size(); ++k) {
      const std::size_t item = work.first(stage) + k;
      const Seconds time = observed.time(item);
      if (!(time > Seconds{0})) continue;
      const Joules energy = observed.energy(item).value_or(Joules{0});
      const bool is_measured = energy > Joules{0};
      const GpuModel drawn = is_measured ? drawing(gpu, highest, energy / time) : gpu;
      const double memory_bound = std::min(kMostMemoryBound, memory_bound_of(items[k].kind, drawn));
      InstructionProfile entry{.stage = stage,
                               .chunk = items[k].chunk,
                               .kind = items[k].kind,
                               .points = sweep(drawn, highest, time, memory_bound)};
      const double scale = is_measured ? energy / entry.points.front().energy : 1;
      for (OperatingPoint& point : entry.points) point.energy = point.energy * scale;
      std::ranges::reverse(entry.points);  // by rising clock
      chunks = chunks || entry.chunk > 0;
      entries.push_back(std::move(entry));
    }
  }
  Profile profile(std::move(entries), chunks);
  profile.mark_synthetic();
  return profile;
}

std::vector<Watts> waiting_powers(const Observation& observed,
                                  const std::vector<ObservedGpu>& gpus) {
  std::vector<Watts> powers;
  for (std::size_t stage = 0; stage < gpus.size(); ++stage) {
    const auto measured = observed.stage(static_cast<int>(stage)).waiting_power;
    powers.push_back(measured.value_or(gpus[stage].model->blocking_power));
  }
  return powers;
}

double saving_of(const plan::PlanTable& plans, const Observation& observed) {
  const plan::TablePlan& all_max = plans.all_max();
  const std::size_t chosen = plans.for_objective().value_or(plans.for_deadline(all_max.time));
  const plan::TablePlan& plan = plans.plans()[chosen];
  // Time beyond the computations is the same under the plan.
  const Seconds iteration = std::max(observed.iteration_time(), all_max.time);
  const auto energy_of = [&](const plan::TablePlan& one, Seconds time) {
    return one.energy + plans.waiting_power() * std::max(Seconds{0}, time - one.time);
  };
  const Joules before = energy_of(all_max, iteration);
  const Joules after = energy_of(plan, std::max(iteration, plan.time));
  return before > Joules{0} ? 1 - after / before : 0;
}

Observation::Observation(JobShape shape, const plan::ScheduleWork& work)
    : shape_(shape), work_(&work) {
  means_.item_time.resize(work.items());
  means_.item_energy.resize(work.items());
  means_.stage_energy.resize(static_cast<std::size_t>(shape.stages));
  means_.stage_clock.resize(static_cast<std::size_t>(shape.stages));
}

bool Observation::add(const FinishedIteration& iteration) {
  const auto is_whole = [this](const GroupIteration& one) { return one.ranks == shape_.tensor; };
  if (!std::ranges::all_of(iteration.groups, is_whole) || !all_finite(iteration.item_time))
    return false;
  const double weight = weight_of(++means_.iterations);
  double longest = 0;
  for (const GroupIteration& group : iteration.groups)
    longest = std::max(longest, group.time.value);
  if (means_.iterations > 1) longest = std::min(longest, kLongestCounted * means_.iteration_time);
  move_to(means_.iteration_time, longest, weight);

  const auto is_measured = [](const GroupIteration& one) {
    return std::isfinite(one.energy.value);
  };
  const bool has_energies =
      std::ranges::all_of(iteration.groups, is_measured) && all_finite(iteration.item_energy);
  const double energy_weight = has_energies ? weight_of(++means_.measured) : 0;
  for (std::size_t item = 0; item < work_->items(); ++item) {
    double time = 0, energy = 0;
    for (int p = 0; p < shape_.data; ++p) {
      time += iteration.item_time[iteration.item(p, item)];
      energy += iteration.item_energy[iteration.item(p, item)];
    }
    move_to(means_.item_time[item], time / shape_.data, weight);
    if (has_energies)
      move_to(means_.item_energy[item], energy / shape_.data / shape_.tensor, energy_weight);
  }
  for (int stage = 0; stage < shape_.stages && has_energies; ++stage) {
    double energy = 0;
    for (int p = 0; p < shape_.data; ++p)
      energy += iteration.groups[shape_.group(p, stage)].energy.value;
    move_to(means_.stage_energy[stage], energy / shape_.data / shape_.tensor, energy_weight);
  }
  const auto has_clock = [](const GroupIteration& one) { return one.clock > Megahertz{0}; };
  if (!std::ranges::all_of(iteration.groups, has_clock)) return true;
  const double clock_weight = weight_of(++means_.clocked);
  for (int stage = 0; stage < shape_.stages; ++stage) {
    double clock = 0;
    for (int p = 0; p < shape_.data; ++p)
      clock += iteration.groups[shape_.group(p, stage)].clock.value;
    move_to(means_.stage_clock[stage], clock / shape_.data, clock_weight);
  }
  return true;
}

std::optional<Joules> Observation::energy(std::size_t item) const {
  if (means_.measured == 0) return std::nullopt;
  return Joules{means_.item_energy[item]};
}

ObservedStage Observation::stage(int number) const {
  ObservedStage stage;
  double in_work = 0;
  const std::vector<plan::WorkItem>& items = work_->stage(number);
  for (std::size_t k = 0; k < items.size(); ++k) {
    const std::size_t item = work_->first(number) + k;
    stage.work += time(item) * items[k].count;
    in_work += means_.item_energy[item] * items[k].count;
  }
  if (means_.clocked > 0)
    stage.clock = Megahertz{static_cast<int>(std::lround(means_.stage_clock[number]))};
  stage.waiting = std::max(Seconds{0}, iteration_time() - stage.work);
  if (means_.measured == 0) return stage;
  stage.energy = Joules{means_.stage_energy[number]};
  if (stage.waiting > iteration_time() * kLeastIdle)
    stage.waiting_power = std::max(Watts{0}, (*stage.energy - Joules{in_work}) / stage.waiting);
  return stage;
}

ObservedJob Observation::summary(const EstimatedSaving& saving) const {
  ObservedJob job{.iterations = iterations(),
                  .iteration_time = iteration_time(),
                  .stages = {},
                  .longest = {},
                  .saving = saving};
  if (iterations() == 0) return job;
  for (int number = 0; number < shape_.stages; ++number) job.stages.push_back(stage(number));
  const auto longest = std::ranges::max_element(job.stages, {}, &ObservedStage::work);
  job.longest = static_cast<int>(longest - job.stages.begin());
  return job;
}

}  // namespace harpe::training
