#pragma once
/// \file
/// An emulated training that is controlled by a real job: the state machine of a server, from
/// registration to stragglers detected by their reports and looks at all-max. In simulated time, in
/// this process, without a network.
///
/// Orders of magnitude slower than emulation/cluster_emulation.h. It shows what that cannot: how
/// soon the job detects a straggler, the cost of its caution, and the error of its savings account.

#include <cstdint>
#include <functional>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/lab/emulation/emulated_cluster.h"
#include "harpe/lab/emulation/stragglers.h"
#include "harpe/training/job/job.h"

namespace harpe::command {

struct JobTraining {
  JobSpec spec;  ///< with a profile; one tensor rank per stage, which represents all of its GPUs
  lab::ClusterShape shape = {};
  lab::StragglerTerms stragglers = {};
  std::int64_t iterations = 500;
  std::function<void(double)> progress = {};
};

struct JobTrainingResult {
  std::int64_t iterations = 0;
  // All GPUs together, by the emulation itself:
  Seconds time{0}, all_max_time{0};
  Joules energy{0}, all_max_energy{0};
  /// The saving that the job reports, and the half-width of its 95 % interval.
  Joules claimed{0}, claimed_error{0};
  std::vector<training::JobEvent> events = {};
  Seconds begin{0};  ///< of the training; times of events are relative to it

  Joules saved() const { return all_max_energy - energy; }
};

/// Runs the training. Errors are those of the specification.
Result<JobTrainingResult> train_through_job(const JobTraining& training);

}  // namespace harpe::command
