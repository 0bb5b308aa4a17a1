#pragma once
/// \file
/// The options of `harpe lab emulate`. Include only in `.cc` files.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/command/command/options.h"
#include "harpe/command/lab_cli/emulate_output.h"
#include "harpe/command/plan_cli/job_options.h"
#include "harpe/lab/emulation/cluster_emulation.h"

namespace harpe::command {

/// The arguments of the command line, including those of the job.
struct EmulateArguments : PlanJobArguments {
  CLI::App* command = nullptr;
  std::string config;  ///< a file of options
  std::optional<std::int64_t> iterations;
  double noise = 0;
  double power_spread = 0.007;
  std::uint64_t seed = 1;
  int jobs = 1;
  bool through_job = false;
  std::vector<lab::RecurringStraggler> stragglers;
  std::vector<lab::RecurringStraggler> throttles;  ///< with `held_to`
  std::optional<Watts> power_limit;                ///< of each GPU
  std::string straggler_trace;
  std::string power_cap;  ///< watts, or a file
  Seconds overhead{0};
  std::int64_t checkpoint_every = 0;
  Seconds checkpoint_time{0};
  Seconds failure_every{0}, restart_time{0};
  int reaction = lab::kUsualReaction;
  std::optional<double> tokens;  ///< of an iteration, all pipelines
  std::string gpu;               ///< a name of `find_gpu_model`
  std::string out;
  std::optional<Seconds> power_time;  ///< recorded from the start
  /// Number of pipelines whose nodes and GPUs are also recorded.
  int power_pipelines = 1;
  PowerFormat power_format = PowerFormat::kTable;
};

/// Parses a straggler: "20%" or "1.2x", followed by comma-separated terms: "pipeline=3",
/// "every=3d", "for=1d", "random".
Result<lab::RecurringStraggler> parse_straggler(std::string_view text);

/// Parses a throttled pipeline: its highest clock, "1260MHz", followed by the terms of a straggler.
Result<lab::RecurringStraggler> parse_throttle(std::string_view text);

/// Adds the options, including those of the job. Each may be given once, except `--straggler` and
/// `--throttle`.
void add_emulate_options(CLI::App& app, const std::shared_ptr<EmulateArguments>& arguments);

}  // namespace harpe::command
