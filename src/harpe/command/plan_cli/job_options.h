#pragma once
/// \file
/// Keys of a job file as options of a command line.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harpe/command/command/options.h"
#include "harpe/command/plan_cli/plan_job.h"

namespace harpe::command {

/// Adds the option `--name` of a key. Its values on the command line are appended to `entries`.
CLI::Option* add_job_option(CLI::App& app, const JobKey& key,
                            const std::shared_ptr<std::vector<JobEntry>>& entries);

/// A job on a command line: a file, options, or both.
struct PlanJobArguments {
  std::string job_file;  ///< TOML, or the profile itself (CSV); may be empty
  std::vector<JobEntry> options;
};

/// Adds the argument for the file and the options of the keys that the command offers.
void add_job_arguments(CLI::App& app, const std::shared_ptr<PlanJobArguments>& arguments,
                       const std::function<bool(const JobKey&)>& offers);

/// Reads the table of latencies that the job names or, if the job states no latency, the one next
/// to its profile.
Status read_job_latency(PlanJob& job);
/// Reads the file, and the table of latencies as `read_job_latency` does.
Result<PlanJob> read_job(const PlanJobArguments& arguments);

}  // namespace harpe::command
