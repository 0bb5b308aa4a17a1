#pragma once
/// \file
/// The replay of the jobs in Zeus's traces on several GPUs with several eta, for `harpe replay
/// zeus`. All seeds of all jobs run in parallel; the results do not depend on the number of
/// threads.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harpe/command/command/command.h"
#include "harpe/lab/replay/comparison.h"
#include "harpe/lab/replay/traces.h"

namespace harpe::command {

/// Returns the path of summary_train.csv, with ".gz" if only that file exists.
std::filesystem::path train_file(const std::filesystem::path& directory);
/// Returns the path of summary_power_<gpu>.csv, the file of one GPU.
std::filesystem::path power_file(const std::filesystem::path& directory, const std::string& gpu);

/// Reads both files.
Result<lab::Traces> read_traces(const std::filesystem::path& directory, const std::string& gpu);

struct ZeusArguments {
  std::string directory, from, csv, out, groups;
  std::vector<std::string> gpus{"v100"};
  std::vector<double> etas{0.5};
  int seeds = 20;
  zeus::PayBackPrior prior = {};  ///< Harpe's prior
  bool targets = false;           ///< all targets of the traces, not only the paper's
  lab::Horizon horizon = {};
};

/// One job, the same job on the GPU used before, and the results of each seed.
struct ZeusJob {
  lab::TracedJob job;
  std::optional<lab::TracedJob> before;
  std::vector<lab::SeedFigures> seeds;
};

/// All jobs on one GPU with one eta.
struct ZeusRun {
  std::string gpu;
  double eta = 0;
  bool has_targets = false;  ///< the jobs have every target
  std::vector<ZeusJob> jobs;
  /// Targets that the default batch size does not always reach, or that lack its traces.
  std::vector<std::string> left_out = {};
};

/// Returns the runs by GPU, then eta, in the order of the arguments. Fails with `kInvalidInput` if
/// files are not valid traces, or if there are more seeds in total than memory should hold.
Result<std::vector<ZeusRun>> replay_zeus_jobs(const ZeusArguments& arguments, Console& console);

/// Runs `harpe replay zeus --groups`: recurring jobs that overlap
/// (replay/concurrent_recurrences.h), on one GPU with one eta.
Result<Outcome> replay_groups(const ZeusArguments& arguments, Console& console);

}  // namespace harpe::command
