#pragma once
/// \file
/// What `harpe lab emulate` shows and writes: an emulated training in the user's units.

#include <optional>
#include <string>
#include <vector>

#include "harpe/carbon/carbon/cluster_bill.h"
#include "harpe/command/lab_cli/emulate_plans.h"
#include "harpe/command/lab_cli/through_job.h"
#include "harpe/command/plan_cli/cluster.h"
#include "harpe/command/plan_cli/plan_output.h"
#include "harpe/lab/emulation/cluster_emulation.h"
#include "harpe/lab/emulation/power_swings.h"

namespace harpe::command {

/// Power over time under one policy.
struct EmulatedPower {
  std::string key, name;  ///< "harpe", "Harpe"
  std::vector<double> watts;
  lab::PowerSwings swings;
};

/// An emulated training, and all that it was made of.
struct EmulatedTrainingResult {
  std::string title = {}, subtitle = {};  ///< "gpt3", "1f1b, 8 stages, 96 micro-batches, ..."
  bool is_synthetic = false;
  lab::ClusterShape shape;
  lab::EmulationOutcome outcome = {};
  std::optional<RivalClock> one_clock = {};
  /// Standard deviation of the share that is saved against all-max between emulations with other
  /// seeds, and how many there were.
  double deviation = 0;
  int other_seeds = 0;
  std::string gpu = {};  ///< its model, if it is known
  std::int64_t gpus = 0;
  int stages = 1;
  std::optional<double> tokens = {};  ///< of an iteration, all pipelines
  carbon::ClusterTerms cluster;       ///< pipelines, hours, price, carbon
  std::optional<JobTrainingResult> through_job = {};
  std::vector<std::string> events = {};  ///< what happens to the cluster, in words
  std::vector<std::string> notes = {};
  Seconds power_step{0};
  std::vector<EmulatedPower> power = {};  ///< of the job under Harpe's policy and at all-max
};

/// Returns a table of the policies and sentences: what is saved, what happened, how sure it is.
std::string emulation_text(const EmulatedTrainingResult& result,
                           const std::vector<std::string>& files, bool coloured);
std::string emulation_json(const EmulatedTrainingResult& result,
                           const std::vector<std::string>& files);
/// Returns a chart of the power over the first iterations, as a file of its own.
std::string power_svg(const EmulatedTrainingResult& result);
/// Returns the spectrum of the power under each policy as CSV, without rows if the recording is too
/// short.
std::string spectrum_csv(const EmulatedTrainingResult& result);
/// Returns a page for those who decide: what is saved, what it rests on, how sure it is.
std::string emulation_page(const EmulatedTrainingResult& result, PageSource source);

}  // namespace harpe::command
