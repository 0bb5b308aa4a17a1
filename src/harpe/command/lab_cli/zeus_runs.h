#pragma once
/// \file
/// The jobs of Zeus's traces, replayed on several GPUs with several eta: what `harpe replay zeus`
/// runs. All seeds of all of them run side by side; the figures do not depend on how many at a
/// time.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harpe/command/command/command.h"
#include "harpe/lab/replay/comparison.h"
#include "harpe/lab/replay/traces.h"

namespace harpe::command {

/// Returns the path of summary_train.csv, with ".gz" if a plain one is missing and that is there.
std::filesystem::path train_file(const std::filesystem::path& directory);
/// Returns the path of summary_power_<gpu>.csv, which has one GPU.
std::filesystem::path power_file(const std::filesystem::path& directory, const std::string& gpu);

/// Reads these two.
Result<lab::Traces> read_traces(const std::filesystem::path& directory, const std::string& gpu);

struct ZeusArguments {
  std::string directory, from, csv, out, groups;
  std::vector<std::string> gpus{"v100"};
  std::vector<double> etas{0.5};
  int seeds = 20;
  zeus::PayBackPrior prior = {};  ///< what Harpe believes beforehand
  bool targets = false;           ///< every target of the traces, not only the paper's
  lab::Horizon horizon = {};
};

/// One job, that of the GPU that was there before, and what each seed gave.
struct ZeusJob {
  lab::TracedJob job;
  std::optional<lab::TracedJob> before;
  std::vector<lab::SeedFigures> seeds;
};

/// All jobs on one GPU with one eta.
struct ZeusRun {
  std::string gpu;
  double eta = 0;
  bool has_targets = false;  ///< the jobs are of every target
  std::vector<ZeusJob> jobs;
};

/// By GPU, then eta, as the arguments have them. `kInvalidInput` for files that cannot be read as
/// traces, and for more seeds in all than memory should hold.
Result<std::vector<ZeusRun>> replay_zeus_jobs(const ZeusArguments& arguments, Console& console);

/// `harpe replay zeus --groups`: recurring jobs that overlap (replay/concurrent_recurrences.h), of
/// one GPU and eta.
Result<Outcome> replay_groups(const ZeusArguments& arguments, Console& console);

}  // namespace harpe::command
