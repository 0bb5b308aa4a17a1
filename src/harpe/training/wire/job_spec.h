#pragma once
/// \file
/// What a training job says about itself when it is registered.
///
///   harpe::JobSpec spec;  // of RankClientOptions, the same on all ranks
///   spec.shape = {.data = 2, .stages = 4};
///   spec.schedule = *harpe::one_f_one_b({.stages = 4, .micro_batches = 8});
///   spec.objective = {harpe::Objective::Kind::kSlowdown, 0.02};
///   const harpe::Status valid = harpe::validate(spec);

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harpe/base/units.h"
#include "harpe/plan/instruction/per_stage.h"
#include "harpe/plan/objective/objective.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/fixed_times.h"
#include "harpe/plan/schedule/pipeline.h"
#include "harpe/training/wire/job_shape.h"

namespace harpe {

/// How a job measures what its instructions cost while it trains.
struct ProfilingOptions {
  /// Profiling may make training so much longer, as a fraction of the time since it began: at no
  /// moment more. What a slow clock costs is earned by iterations at all-max.
  double slowdown_limit = 0.1;
  int warm_up = 2;               ///< iterations at all-max before anything counts
  int iterations_per_clock = 4;  ///< the first is dropped
  int most_iterations_per_clock = 12;
  int most_clocks = 24;               ///< longer lists are thinned evenly, both ends kept
  Megahertz lowest_clock = {};        ///< none below is tried
  int max_consecutive_increases = 5;  ///< of effective energy in a row that end a stage's sweep
  double time_target = 0.01;          ///< half-width of the 95 % interval that suffices, relative
  double energy_target = 0.02;        ///< the same of energy
  /// True if no clock is set and each stage is measured at the clock that its GPUs have. No plan
  /// can be made from such a profile, so servers that plan refuse it.
  bool as_is = false;
  friend bool operator==(const ProfilingOptions&, const ProfilingOptions&) = default;
};

struct JobSpec {
  std::string name;  ///< for people
  JobShape shape;
  Schedule schedule;    ///< of one pipeline
  Transfers transfers;  ///< between its model parts
  /// What stages do beside, which no rank reports and plans take into account.
  FixedTimes fixed_times;
  /// Of a GPU while it waits; measured while profiling where it is not given.
  std::optional<PerStage<Watts>> blocking_power;
  LatencyByClock switch_latency = {};  ///< see `PlanOptions`
  Seconds min_dwell{0};
  ProfilingOptions profiling;
  Objective objective;
  /// A profile known from before: the job plans at once and measures only what has moved.
  std::optional<Profile> profile;
  bool fit = false;  ///< plans are made from curves fitted to the profile, see `fit_profile`
  /// True if training is only measured: no clock is set, and no plan is made.
  bool observe = false;
  /// How it moves along its frontier with the carbon intensity of its grid, as JSON
  /// (wire/carbon_terms.h); empty: it does not.
  std::string carbon = {};
  /// Terms of its bill, as JSON (wire/cluster_terms.h). Empty: none.
  std::string cluster = {};
  int plans = 200;  ///< points of the frontier to hold ready; a server holds fewer of long ones
};

// More than the largest machines have: what a single request may make a server hold, and do, is
// bounded, by its words, before anything of that size is made.
inline constexpr int kMaxRanks = 262'144;
inline constexpr int kMaxStages = 4'096;
inline constexpr int kMaxChunks = 64;                ///< model parts that one stage holds
inline constexpr int kMaxJobInstructions = 131'072;  ///< of one pipeline's iteration
inline constexpr int kMaxPlans = 10'000;
/// Pipelines x kinds of instructions, with their chunks, of all stages: what an iteration measures.
inline constexpr std::int64_t kMaxMeasured = 4'000'000;
inline constexpr std::size_t kLongestProfile = 8 * 1024 * 1024;  ///< bytes

/// Whether a job may be called so: 1 to 128 letters, digits or any of ._-+, and neither "." nor
/// "..".
bool is_job_id(std::string_view id);

/// Returns why a schedule cannot have that number of chunks a stage. Nullopt if it has.
std::optional<std::string> wrong_chunks(std::int64_t given, const Schedule& schedule);

std::int64_t instructions_of(const JobSpec& spec);

/// Every violated rule is one error: degrees of at least 1, nothing above the limits, a schedule of
/// `shape.stages` stages that is valid, numbers in range.
Status validate(const JobSpec& spec);

}  // namespace harpe
