#pragma once
/// \file
/// Output of `harpe lab emulate`: an emulated training in the user's units.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/cluster_bill.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/lab_cli/emulate_plans.h"
#include "harpe/command/lab_cli/through_job.h"
#include "harpe/command/plan_cli/cluster.h"
#include "harpe/command/plan_cli/plan_output.h"
#include "harpe/lab/emulation/cluster_emulation.h"
#include "harpe/lab/emulation/power_recorder.h"
#include "harpe/report/report.h"

namespace harpe::command {

/// Power over time under one policy.
struct EmulatedPower {
  std::string key, name;  ///< "harpe", "Harpe"
  std::vector<double> watts;
  lab::PowerSwings swings;
};

/// An emulated training, and the inputs that it was made from.
struct EmulatedTrainingResult {
  std::string title = {}, subtitle = {};  ///< "gpt3", "1f1b, 8 stages, 96 micro-batches, ..."
  bool is_synthetic = false;
  lab::ClusterShape shape;
  lab::EmulationOutcome outcome = {};
  std::optional<RivalClock> one_clock = {};
  /// Standard deviation, between emulations with other seeds, of the share that is saved against
  /// all-max, and the number of these emulations.
  double deviation = 0;
  int other_seeds = 0;
  std::string gpu = {};  ///< its model; empty if unknown
  std::int64_t gpus = 0;
  int stages = 1;
  std::optional<double> tokens = {};  ///< of an iteration, all pipelines
  carbon::ClusterTerms cluster;       ///< pipelines, hours, price, carbon
  std::optional<JobTrainingResult> through_job = {};
  std::vector<std::string> events = {};  ///< events of the cluster, in words
  std::vector<std::string> notes = {};
  Seconds power_step{0};
  std::vector<EmulatedPower> power = {};  ///< of the job under Harpe's policy and at all-max
};

/// Returns a table of the policies and sentences about the saving, the events and the uncertainty.
std::string emulation_text(const EmulatedTrainingResult& result,
                           const std::vector<std::string>& files, bool coloured);
std::string emulation_json(const EmulatedTrainingResult& result,
                           const std::vector<std::string>& files);
/// Returns a chart of the power over the first iterations, as a standalone file.
std::string power_svg(const EmulatedTrainingResult& result);
/// Returns the spectrum of the power under each policy as CSV, without rows if the recording is too
/// short.
std::string spectrum_csv(const EmulatedTrainingResult& result);
/// Returns a page for decision makers: the saving, its basis and its uncertainty.
std::string emulation_page(const EmulatedTrainingResult& result, PageSource source);

/// Layout of a file with the power of an emulated training over time.
enum class PowerFormat : unsigned char {
  kTable,      ///< one row per step: the job, nodes, one GPU per stage
  kParquet,    ///< the same in Apache Parquet
  kCatalogue,  ///< one row per step and GPU, in the form of a catalogue of power traces
  kOpenG2g     ///< one row per step: one GPU, the mean of the job, for OpenG2G's training load
};

/// Adds the power of the job under both policies to the result.
void keep_power(const lab::PowerRecorder& harpe, const lab::PowerRecorder& all_max,
                EmulatedTrainingResult& result);

/// Returns how the power swings under each policy, one sentence each.
std::vector<std::string> swings_of(const EmulatedTrainingResult& result);

/// Returns mean, peak, ramps and the strongest swing.
Json power_json(const EmulatedPower& power);

/// Returns the power of the job in the result, of nodes and of GPUs by Harpe's plans as CSV.
std::string power_table(const lab::PowerRecorder& harpe, const EmulatedTrainingResult& result);

/// Returns the table of `power_table` as Apache Parquet.
std::string power_parquet(const lab::PowerRecorder& harpe, const EmulatedTrainingResult& result);

/// Returns the mean power of the job's GPUs by Harpe's plans as CSV with the columns `t_s,power_W`.
std::string power_openg2g(const EmulatedTrainingResult& result);

/// Fails if a recording has too many GPUs and steps for a file with a row for each.
Status check_catalogue_size(const lab::PowerRecorder& harpe);

/// Returns the power of each recorded GPU by Harpe's plans as CSV with the columns
/// `run_id,timestamp,time_relative_s,gpu_id,power_w,sm_clock_mhz`. `timestamp` and `sm_clock_mhz`
/// are empty: the time is simulated, and clocks are not recorded.
/// \pre `check_catalogue_size` passes
std::string power_catalogue(const lab::PowerRecorder& harpe, const EmulatedTrainingResult& result);

/// Returns the known facts about that run as JSON.
std::string power_metadata(const lab::PowerRecorder& harpe, const EmulatedTrainingResult& result,
                           const PageSource& source);

}  // namespace harpe::command
