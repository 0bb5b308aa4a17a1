#include "harpe/training/job/straggling_matrix_testing.h"

#include <algorithm>
#include <cstddef>

#include "harpe/training/job/played_job_testing.h"

namespace harpe::training {
namespace {

using Iterations = std::vector<EmulatedMachines::Iteration>;

constexpr int kReaction = 10, kLasting = 120;
constexpr Watts kBlocking{80};
constexpr Seconds kOverhead{0.05};
constexpr double kNoise = 0.002;

JobSpec spec_of(const StragglingCase& given) {
  JobSpec spec = small_spec(given.data, given.stages, 2 * given.stages);
  spec.plans = 40;
  spec.profiling.slowdown_limit = 0.1;
  spec.profile = truth_of(spec);
  spec.blocking_power = kBlocking;
  return spec;
}

std::string cause_of(const Job& job) {
  const JobStatus status = job.status();
  if (!status.slow_workers.empty()) return "worker";
  if (!status.slow_stages.empty()) return "structural";
  if (status.random) return "random";
  return status.stragglers.empty() ? "" : "declared";
}

double ratio(const Iterations& all, std::size_t from, std::size_t to) {
  double time = 0, at_all_max = 0;
  for (std::size_t i = from; i < to; ++i) {
    time += all[i].time.value;
    at_all_max += all[i].all_max_time.value;
  }
  return time / at_all_max;
}

}  // namespace

std::string StragglingCase::text() const {
  return std::to_string(data) + "x" + std::to_string(stages) + ", " + name_of(error.straggling) +
         " x" + std::to_string(error.factor).substr(0, 4) + (declared ? ", declared" : "");
}

StragglingRun::StragglingRun(const StragglingCase& given)
    : case_(given), spec_(spec_of(given)), truth_(*spec_.profile) {}

StragglingOutcome StragglingRun::run() {
  Job job = *Job::create(spec_, Seconds{1.8e9});
  PlayedTraining training(spec_, truth_,
                          {.blocking_power = kBlocking,
                           .overhead = kOverhead,
                           .noise = kNoise,
                           .seed = case_.error.seed});
  (void)training.register_all(job);
  training.run_until(job, [&] { return job.phase() == JobPhase::kRunning; }, 50);
  training.run(job, 40);

  StragglingOutcome outcome;
  const auto onset = static_cast<std::size_t>(training.next_iteration());
  inject(case_.error, training.next_iteration(), training);
  declare(job, true, training.now());
  watch(job, training, outcome);
  const Iterations& all = training.iterations();
  const std::size_t settled = onset + kReaction;
  outcome.first_time = ratio(all, onset, settled);
  outcome.time = ratio(all, settled, all.size());
  for (std::size_t i = settled; i + 10 <= all.size(); ++i)
    outcome.worst_ten = std::max(outcome.worst_ten, ratio(all, i, i + 10));
  save_energy(training, outcome);

  const std::size_t healed = all.size();
  training.heal();
  declare(job, false, training.now());
  training.run(job, kReaction + 40);
  outcome.healed_time = ratio(all, healed + kReaction, all.size());
  events = training.events;
  return outcome;
}

void StragglingRun::watch(Job& job, PlayedTraining& training, StragglingOutcome& outcome) const {
  const bool grows = case_.error.straggling == Straggling::kGrowing;
  for (int i = 0; i < (grows ? StragglingFault::kGrows : 0) + kReaction + kLasting; ++i) {
    training.run(job, 1);
    outcome.profiled += job.phase() == JobPhase::kProfiling ? 1 : 0;
    if (outcome.found_after) continue;
    outcome.cause = cause_of(job);
    if (!outcome.cause.empty()) outcome.found_after = i + 1;
  }
}

std::vector<double> StragglingRun::factors(int pipeline) const {
  return factors_of_stages(case_.error, spec_.shape, pipeline);
}

Frontier StragglingRun::frontier(int pipeline) const {
  return *characterize(spec_.schedule, slowed(truth_, factors(pipeline)),
                       {.blocking_power = kBlocking});
}

void StragglingRun::declare(Job& job, bool straggles, Seconds now) const {
  if (!case_.declared) return;
  for (const auto& [pipeline, factor] : declared_factors()) {
    if (straggles) {
      (void)job.set_straggler({.pipeline = pipeline, .factor = factor}, now);
    } else {
      (void)job.clear_straggler(pipeline, now);
    }
  }
}

/// Returns the iteration time of each straggling pipeline, relative to a healthy pipeline.
std::vector<std::pair<int, double>> StragglingRun::declared_factors() const {
  std::vector<std::pair<int, double>> declared;
  const std::vector<double> healthy(static_cast<std::size_t>(case_.stages), 1.0);
  for (int pipeline = 0; pipeline < case_.data; ++pipeline) {
    if (factors(pipeline) == healthy) continue;
    const Seconds usual = (*characterize(spec_.schedule, truth_, {.blocking_power = kBlocking}))
                              .all_max()
                              .iteration_time;
    const double factor = frontier(pipeline).all_max().iteration_time / usual;
    if (factor > 1) declared.emplace_back(pipeline, factor);
  }
  return declared;
}

void StragglingRun::save_energy(const PlayedTraining& training, StragglingOutcome& outcome) const {
  constexpr std::size_t kLast = 40;
  const Iterations& all = training.iterations();
  double energy = 0, at_all_max = 0;
  for (std::size_t i = all.size() - kLast; i < all.size(); ++i) {
    energy += all[i].energy.value;
    at_all_max += all[i].all_max_energy.value;
  }
  outcome.saved = 1 - energy / at_all_max;
  if (case_.error.straggling == Straggling::kRandom ||
      case_.error.straggling == Straggling::kHeld ||
      case_.error.straggling == Straggling::kStalls) {
    return;
  }
  std::vector<Frontier> frontiers;
  Seconds longest{0};
  for (int pipeline = 0; pipeline < case_.data; ++pipeline) {
    frontiers.push_back(frontier(pipeline));
    longest = std::max(longest, frontiers.back().all_max().iteration_time);
  }
  double best = 0;
  for (const Frontier& one : frontiers) {
    const Result<Plan> plan = one.plan_for_straggler(longest, {.effort = Effort::kQuick});
    best += plan->iteration_energy.value;
  }
  best += (kBlocking * kOverhead * (case_.data * case_.stages)).value;
  constexpr double kNothing = 1e-6;
  const double possible = 1 - best * kLast / at_all_max;
  if (possible > kNothing) outcome.saved_share = outcome.saved / possible;
}

}  // namespace harpe::training
