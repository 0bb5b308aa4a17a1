#include "harpe/training/job/observation.h"

#include <algorithm>
#include <cmath>

namespace harpe::training {
namespace {

constexpr double kLeastWeight = 0.01;  // of the newest iteration in the means
constexpr double kLongestCounted = 3;  // of the mean: one with a checkpoint in it counts so much
constexpr double kLeastIdle = 0.02;    // share of an iteration from which waiting power is known

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
