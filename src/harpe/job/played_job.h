#pragma once
/// \file
/// A job with training played against it, for tests. Simulated.

#include "harpe/job/job.h"
#include "harpe/job/simulated_training.h"
#include "harpe/profile/synth.h"

namespace harpe {

inline JobSpec small_spec(int data = 2, int stages = 4, int micro_batches = 6) {
  JobSpec spec;
  spec.name = "small";
  spec.shape = {.data = data, .stages = stages, .tensor = 1};
  spec.schedule = *one_f_one_b({.stages = stages, .micro_batches = micro_batches});
  spec.plans = 50;
  spec.profiling.most_clocks = 12;
  spec.profiling.slowdown_limit = 0.5;
  return spec;
}

inline Profile truth_of(const JobSpec& spec) {
  return *synthesize({.stages = spec.shape.stages, .imbalance = 1.3, .noise = 0});
}

/// A job with its training.
struct Played {
  explicit Played(const JobSpec& spec, SimulatedTraining::Options options = {})
      : job(*Job::create(spec, Seconds{1.8e9})), training(spec, truth_of(spec), options) {}

  bool running() {
    return training.run_until(
        job, [&] { return job.phase() == JobPhase::kRunning && job.plans() != nullptr; }, 2000);
  }
  void settle() { training.run(job, 8); }
  /// A stage takes a quarter longer on all pipelines. \return  whether the job measures again
  bool measures_again_when_slower(int stage) {
    for (int pipeline = 0; pipeline < job.spec().shape.data; ++pipeline)
      training.slow[{pipeline, stage}] = 1.25;
    return training.run_until(job, [&] { return job.phase() == JobPhase::kProfiling; }, 60);
  }

  Job job;
  SimulatedTraining training;
};

}  // namespace harpe
