#pragma once
/// \file
/// A job with emulated training played against it, for tests.

#include <optional>
#include <string>

#include "harpe/training/job/job.h"
#include "harpe/training/job/played_training_testing.h"

namespace harpe::training {

JobSpec small_spec(int data = 2, int stages = 4, int micro_batches = 6);
Profile truth_of(const JobSpec& spec);

/// A job with its training.
struct Played {
  explicit Played(const JobSpec& spec, const EmulatedMachines::Options& options = {})
      : Played(spec, spec, options) {}
  /// \param known  what the job is given as the pipeline; \param real  what it is
  Played(const JobSpec& known, const JobSpec& real, const EmulatedMachines::Options& options);

  bool running();
  void settle() { training.run(job, 8); }
  /// Of the newest iterations, over the same at all-max.
  double slowdown(std::size_t iterations) const;
  /// The server is killed and starts again: what is left is what was stored.
  Status restart_server();
  /// A stage takes a quarter longer on all pipelines. \return  whether other plans are made
  bool plans_anew_when_slower(int stage);
  int events(const std::string& part, std::optional<JobEvent::Level> level = {}) const;

  Job job;
  PlayedTraining training;
};

}  // namespace harpe::training
