#pragma once
/// \file
/// Power over time of an emulated training as files.

#include <cstddef>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/lab_cli/emulate_output.h"
#include "harpe/lab/emulation/power_recorder.h"
#include "harpe/report/report.h"

namespace harpe::command {

/// Layout of the power over time.
enum class PowerFormat : unsigned char {
  kTable,      ///< a row a step: the job, nodes, one GPU a stage
  kParquet,    ///< the same in Apache Parquet
  kCatalogue,  ///< a row a step and GPU, as a catalogue of power traces takes it
  kOpenG2g     ///< a row a step: one GPU, the mean of the job, as OpenG2G's training load takes it
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

/// Returns the same as Apache Parquet.
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

/// Returns what is known of that run as JSON.
std::string power_metadata(const lab::PowerRecorder& harpe, const EmulatedTrainingResult& result,
                           const PageSource& source);

}  // namespace harpe::command
