#include "harpe/lab/emulation/emulated_cluster.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "harpe/base/hashed_random.h"
#include "harpe/base/text.h"

namespace harpe::lab {
namespace {

constexpr std::uint64_t kNodeDraws = 0x6e6f6465, kNoiseDraws = 0x6e6f6973;
/// GPUs of the largest cluster: ten times the largest known cluster.
constexpr std::int64_t kMostGpus = 10'000'000;

}  // namespace

Result<EmulatedCluster> EmulatedCluster::make(const ClusterShape& shape,
                                              EmulatedPipeline pipeline) {
  Diagnostics diagnostics;
  const auto expect = [&](bool holds, const std::string& what) {
    if (!holds) diagnostics.add(what);
  };
  expect(shape.pipelines >= 1 && shape.gpus_per_stage >= 1 && shape.gpus_per_node >= 1,
         "a cluster needs at least one pipeline, one GPU per stage and one GPU per node");
  expect(shape.noise >= 0 && shape.noise <= EmulatedPipeline::kMostNoise,
         "noise must be from 0 to " + shortest(100 * EmulatedPipeline::kMostNoise) + " %");
  expect(shape.power_spread >= 0 && shape.power_spread <= EmulatedPipeline::kMostNoise,
         "the spread of power must be from 0 to " + shortest(100 * EmulatedPipeline::kMostNoise) +
             " %");
  expect(shape.overhead >= Seconds{0} && shape.overhead < Seconds{1e9},
         "the overhead of an iteration must be from 0 to 10^9 s");
  if (diagnostics.empty()) {
    const std::int64_t of_pipeline =
        static_cast<std::int64_t>(pipeline.stages()) * shape.gpus_per_stage;
    expect(of_pipeline <= kMostGpus / shape.pipelines,
           "a cluster may have at most " + grouped(kMostGpus, 0) + " GPUs");
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return EmulatedCluster(shape, std::move(pipeline));
}

EmulatedCluster::EmulatedCluster(const ClusterShape& shape, EmulatedPipeline pipeline)
    : shape_(shape), pipeline_(std::move(pipeline)) {
  std::size_t gpu = 0;
  const auto of_node = static_cast<std::size_t>(shape.gpus_per_node);
  double factor = 1;
  for (int pipeline_number = 0; pipeline_number < shape.pipelines; ++pipeline_number) {
    for (std::size_t stage = 0; stage < pipeline_.stages(); ++stage) {
      double sum = 0;
      for (int rank = 0; rank < shape.gpus_per_stage; ++rank, ++gpu) {
        if (gpu % of_node == 0) factor = node_factor(gpu / of_node);
        sum += factor;
      }
      factors_.push_back(sum / shape.gpus_per_stage);
      waiting_power_ += sum * pipeline_.blocking_power(stage);
    }
  }
}

double EmulatedCluster::node_factor(std::size_t node) const {
  if (shape_.power_spread == 0) return 1;
  return std::max(0.0, 1 + shape_.power_spread * normal(mixed(shape_.seed, kNodeDraws, node)));
}

std::int64_t EmulatedCluster::gpus() const {
  return static_cast<std::int64_t>(factors_.size()) * shape_.gpus_per_stage;
}

const EmulatedCluster::KeptRun& EmulatedCluster::kept(std::size_t plan, double slowdown) {
  const auto [entry, is_new] = kept_.try_emplace({plan, slowdown});
  if (is_new) {
    EmulatedPipeline::Run run;
    EmulatedPipeline::Clocks clocks = pipeline_.steady_clocks(plan);
    pipeline_.run({.plan = plan, .slowdown = slowdown}, clocks, run);
    entry->second = {.makespan = run.makespan, .effective = std::move(run.effective)};
  }
  return entry->second;
}

std::uint64_t EmulatedCluster::draws_of(std::int64_t number, std::size_t pipeline) const {
  return mixed(mixed(shape_.seed, kNoiseDraws, static_cast<std::uint64_t>(number)) ^
               mixed(pipeline));
}

void EmulatedCluster::trace(std::int64_t number, const Assignment& assignment, const Course& course,
                            const std::function<void(const TracedRun&)>& visit) const {
  // Without noise, pipelines with the same plan and slowdown are visited together.
  std::map<std::tuple<std::size_t, double, std::size_t>, std::vector<std::size_t>> alike;
  for (std::size_t p = 0; p < assignment.plans.size(); ++p) {
    alike[{assignment.plans[p], assignment.slowdowns[p], shape_.noise > 0 ? p : 0}].push_back(p);
  }
  const std::size_t stages = pipeline_.stages();
  EmulatedPipeline::Noise noise;
  EmulatedPipeline::Run run;
  std::vector<double> gpus_of_stage;
  for (const auto& [key, pipelines] : alike) {
    const std::size_t first = pipelines.front();
    if (shape_.noise > 0) pipeline_.draw(draws_of(number, first), shape_.noise, noise);
    auto clocks = course.clocks_.empty() ? pipeline_.steady_clocks(assignment.plans[first])
                                         : course.clocks_[first];
    pipeline_.run({.plan = assignment.plans[first],
                   .slowdown = assignment.slowdowns[first],
                   .noise = shape_.noise > 0 ? &noise : nullptr},
                  clocks, run);
    gpus_of_stage.assign(stages, 0);
    for (const std::size_t p : pipelines) {
      for (std::size_t stage = 0; stage < stages; ++stage)
        gpus_of_stage[stage] += factors_[p * stages + stage] * shape_.gpus_per_stage;
    }
    visit({run, pipelines, gpus_of_stage});
  }
}

ClusterIteration EmulatedCluster::nominal(const Assignment& assignment) {
  const std::size_t stages = pipeline_.stages();
  const KeptRun* run = nullptr;
  Seconds longest{0};
  double computing = 0;
  for (std::size_t p = 0; p < assignment.plans.size(); ++p) {
    const bool is_as_before = p > 0 && assignment.plans[p] == assignment.plans[p - 1] &&
                              assignment.slowdowns[p] == assignment.slowdowns[p - 1];
    if (!is_as_before) run = &kept(assignment.plans[p], assignment.slowdowns[p]);
    longest = std::max(longest, run->makespan);
    for (std::size_t stage = 0; stage < stages; ++stage)
      computing += factors_[p * stages + stage] * run->effective[stage].value;
  }
  const Seconds time = longest + shape_.overhead;
  return {time, Joules{computing * shape_.gpus_per_stage} + waiting_power_ * time};
}

void EmulatedCluster::run(std::int64_t number, std::span<const Assignment> assignments,
                          std::span<Course> courses, const PipelineWorkers& workers,
                          std::span<ClusterIteration> totals) {
  if (shape_.noise > 0) return run_noisy(number, assignments, courses, workers, totals);
  for (std::size_t c = 0; c < courses.size(); ++c) {
    const Assignment& now = assignments[c];
    Course& course = courses[c];
    if (!std::ranges::equal(now.plans, course.plans_) ||
        !std::ranges::equal(now.slowdowns, course.slowdowns_)) {
      course.plans_.assign(now.plans.begin(), now.plans.end());
      course.slowdowns_.assign(now.slowdowns.begin(), now.slowdowns.end());
      course.last_ = nominal(now);
    }
    totals[c] = course.last_;
  }
}

void EmulatedCluster::run_noisy(std::int64_t number, std::span<const Assignment> assignments,
                                std::span<Course> courses, const PipelineWorkers& workers,
                                std::span<ClusterIteration> totals) {
  const auto pipelines = static_cast<std::size_t>(shape_.pipelines);
  const std::size_t stages = pipeline_.stages();
  desks_.resize(std::max<std::size_t>(1, workers.count));
  makespans_.resize(courses.size() * pipelines);
  computing_.resize(courses.size() * pipelines);
  for (std::size_t c = 0; c < courses.size(); ++c) {
    if (!courses[c].clocks_.empty()) continue;
    for (std::size_t p = 0; p < pipelines; ++p)
      courses[c].clocks_.push_back(pipeline_.steady_clocks(assignments[c].plans[p]));
  }
  const PipelineWorkers::Work run_pipeline = [&](std::size_t worker, std::size_t p) {
    Desk& desk = desks_[worker];
    pipeline_.draw(draws_of(number, p), shape_.noise, desk.noise);
    for (std::size_t c = 0; c < courses.size(); ++c) {
      pipeline_.run({.plan = assignments[c].plans[p],
                     .slowdown = assignments[c].slowdowns[p],
                     .noise = &desk.noise},
                    courses[c].clocks_[p], desk.run);
      double computing = 0;
      for (std::size_t stage = 0; stage < stages; ++stage)
        computing += factors_[p * stages + stage] * desk.run.effective[stage].value;
      makespans_[c * pipelines + p] = desk.run.makespan;
      computing_[c * pipelines + p] = Joules{computing * shape_.gpus_per_stage};
    }
  };
  if (workers.each) {
    workers.each(pipelines, run_pipeline);
  } else {
    for (std::size_t p = 0; p < pipelines; ++p) run_pipeline(0, p);
  }
  for (std::size_t c = 0; c < courses.size(); ++c) {
    ClusterIteration& total = totals[c] = {};
    for (std::size_t p = 0; p < pipelines; ++p) {
      total.time = std::max(total.time, makespans_[c * pipelines + p]);
      total.energy += computing_[c * pipelines + p];
    }
    total.time += shape_.overhead;
    total.energy += waiting_power_ * total.time;
  }
}

}  // namespace harpe::lab
