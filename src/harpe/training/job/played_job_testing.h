#pragma once
/// \file
/// A job with emulated training, for tests.

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
  /// \param known  pipeline declared to the job; \param real  pipeline of the training
  Played(const JobSpec& known, const JobSpec& real, const EmulatedMachines::Options& options);

  bool running();
  void settle() { training.run(job, 8); }
  /// Returns the slowdown of the newest iterations against all-max.
  double slowdown(std::size_t iterations) const;
  /// Kills and restarts the server. Only the stored data remain.
  Status restart_server();
  /// Makes a stage a quarter slower on all pipelines. Returns true if new plans are made.
  bool plans_anew_when_slower(int stage);
  int events(const std::string& part, std::optional<JobEvent::Level> level = {}) const;

  Job job;
  PlayedTraining training;
};

}  // namespace harpe::training
