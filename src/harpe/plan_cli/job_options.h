#pragma once
/// \file
/// Keys of a job file as options of a command line.

#include <memory>
#include <vector>

#include "harpe/command/options.h"
#include "harpe/plan_cli/plan_job.h"

namespace harpe {

/// Adds the option `--name` of a key. What the command line gives for it is appended to `entries`.
CLI::Option* add_job_option(CLI::App& app, const JobKey& key,
                            const std::shared_ptr<std::vector<JobEntry>>& entries);

}  // namespace harpe
