// Durations of decisions. Prints microseconds; fails if a decision is wrong.
//
//   job_bench [RANKS]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "harpe/plan/profile/synth.h"
#include "harpe/training/emulated_training/emulation.h"
#include "harpe/training/job/job.h"

namespace harpe::training {
namespace {

using Time = std::chrono::steady_clock;
constexpr int kMicroBatches = 12;

double microseconds(Time::time_point since) {
  return std::chrono::duration<double, std::micro>(Time::now() - since).count();
}

int run(int ranks) {
  constexpr int kStages = 8;
  constexpr Seconds kNow{1.8e9};
  JobSpec spec;
  spec.shape = {.data = std::max(2, ranks / kStages), .stages = kStages, .tensor = 1};
  spec.schedule = *one_f_one_b({.stages = kStages, .micro_batches = kMicroBatches});
  spec.profile = *synthesize({.stages = kStages});
  spec.blocking_power = Watts{80};
  Job job = *Job::create(spec, kNow);
  EmulatedTraining training(spec, *spec.profile, {.blocking_power = Watts{80}});

  Time::time_point start = Time::now();
  for (const RankCoordinates rank : training.places())
    if (!job.register_rank(training.registration(rank), kNow).ok()) return EXIT_FAILURE;
  const double registering = microseconds(start);
  const JobEffects effects = job.take_effects();
  const auto frontier = characterize(
      one_f_one_b({.stages = kStages, .micro_batches = kMicroBatches}),
      effects.characterize->profile, {.blocking_power = effects.characterize->blocking_power});
  start = Time::now();
  job.characterized(
      effects.characterize->ticket,
      plan::PlanTable::build(*frontier, {.plans = 200, .plan = {.effort = Effort::kQuick}}), kNow);
  const double table = microseconds(start);

  std::vector<double> reports;
  for (int iteration = 0; iteration < 20; ++iteration) {
    for (const RankCoordinates rank : training.places())
      training.take(rank, job.assignments(rank.data, rank.stage));
    std::vector<IterationReport> all = training.iterate();
    // Sorted, so that the work is timed, and not the access to distant memory.
    std::ranges::sort(all, {}, &IterationReport::coordinates);
    start = Time::now();
    for (const IterationReport& report : all)
      if (!job.report(report, kNow).ok()) return EXIT_FAILURE;
    reports.push_back(microseconds(start) / spec.shape.ranks());
  }

  std::vector<double> decisions;
  for (int i = 0; i < 1000; ++i) {
    const double factor = 1.05 + 0.0005 * i;
    start = Time::now();
    if (!job.set_straggler({.pipeline = i % 10, .factor = factor}, kNow).ok()) return EXIT_FAILURE;
    decisions.push_back(microseconds(start));
    if (job.pipelines()[i % 10].plan.from != plan::PlanRef::From::kAllMax) return EXIT_FAILURE;
  }
  std::ranges::sort(decisions);
  std::ranges::sort(reports);
  std::printf("%d ranks, %d pipelines, %zu plans\n", spec.shape.ranks(), spec.shape.data,
              job.plans()->plans().size());
  std::printf("registering a rank           %8.2f us\n", registering / spec.shape.ranks());
  std::printf("a rank's report, with its share of the iteration  p50 %.2f us, most %.2f us\n",
              reports[reports.size() / 2], reports.back());
  std::printf("200 quick plans              %8.0f us\n", table);
  std::printf("decision on a straggler      p50 %.1f us, p99 %.1f us, most %.1f us\n",
              decisions[500], decisions[990], decisions.back());
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace harpe::training

int main(int argc, char** argv) {
  return harpe::training::run(argc > 1 ? std::atoi(argv[1]) : 10'000);
}
