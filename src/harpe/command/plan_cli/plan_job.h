#pragma once
/// \file
/// The job of `harpe plan`, read from a job file, from options, or both.

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/command/plan_cli/cluster_options.h"
#include "harpe/command/plan_cli/given_latency.h"
#include "harpe/device/gpu_model/gpu_model.h"
#include "harpe/plan/instruction/asking_ahead.h"
#include "harpe/plan/objective/objective.h"
#include "harpe/plan/schedule/transfers.h"

namespace harpe::command {

/// A job. Lists have one value for all stages (or boundaries), or one for each; empty: none.
struct PlanJob {
  std::filesystem::path profile;
  std::string schedule = "1f1b";  ///< name of a generator, or a file
  bool schedule_is_file = false;
  std::optional<int> stages;
  std::optional<int> micro_batches;
  std::optional<int> chunks;
  bool refuses_chunk_split = false;  ///< `--chunk-split none`
  std::vector<Watts> blocking_power;
  int gpus_per_stage = 1;
  bool fit = false;
  const GpuModel* gpu = nullptr;  ///< model for power limits; null if not given

  std::vector<Seconds> transfer_forward, transfer_backward;
  Transfers::Mode transfer_mode = Transfers::Mode::kOverlapped;
  std::vector<Seconds> load, reduce, optimizer;

  Objective objective;
  GivenLatency switch_latency;  ///< a table is read later, by `read_job_latency`
  bool states_latency = false;  ///< true also for a latency of 0
  plan::ClockClient client = plan::ClockClient::kAny;  ///< the client that will request the clocks
  Seconds min_dwell{0};
  bool quick = false;
  Seconds search_time{0};  ///< of a continued search, see `PlanOptions`
  std::optional<int> search_windows;

  std::optional<std::filesystem::path> out;
  std::optional<int> points;  ///< nullopt: see `plans_shown`
  bool certificate = false;
  bool whole_trace = false;
  std::string name;

  ClusterOptions cluster;

  bool searches_on() const { return search_time > Seconds{0} || search_windows.has_value(); }

  std::vector<std::string> warnings;  ///< about keys that may have been meant differently
};

/// One key of a job file, which is also the option `--name` of the command line.
struct JobKey {
  std::string_view name;   ///< "blocking-power"
  std::string_view value;  ///< "WATTS[,...]"; empty for a switch
  std::string_view group;
  std::string_view help;
  bool is_objective;
  bool is_path;
  /// Sets the values in the job (a switch has none).
  std::function<Status(PlanJob& job, std::span<const std::string> values)> set;
};
const std::vector<JobKey>& job_keys();

/// A key with its values and their position (no file: the command line).
struct JobEntry {
  const JobKey* key = nullptr;
  std::vector<std::string> values = {};
  std::string file = {};
  int line = 0;
  int column = 0;
};

/// Reads the entries of a TOML job file. Relative paths in it become relative to the file's folder.
/// Fails if the text is not TOML, a key is unknown (the diagnostic names the nearest one), or a
/// value has the wrong type.
Result<std::vector<JobEntry>> parse_job(std::string_view text, const std::filesystem::path& file);

/// Makes the job from the entries of a file and of options. Options override the file, also if both
/// name an objective. Reports all diagnostics at once, including missing and contradicting keys.
Result<PlanJob> make_job(const std::vector<JobEntry>& file, const std::vector<JobEntry>& options);
/// Makes a job from entries that may lack required keys.
Result<PlanJob> make_part_of_job(const std::vector<JobEntry>& file,
                                 const std::vector<JobEntry>& options);

}  // namespace harpe::command
