#pragma once
/// \file
/// The specification with which a training job is registered.
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

/// How a job measures the time and energy of its instructions while it trains.
struct ProfilingOptions {
  /// Limit on the time that profiling adds to training, as a fraction of the time since profiling
  /// began. It holds at every moment: iterations at all-max earn the time for slower clocks.
  double slowdown_limit = 0.1;
  int warm_up = 2;               ///< iterations at all-max before anything counts
  int iterations_per_clock = 4;  ///< the first is dropped
  int most_iterations_per_clock = 12;
  int most_clocks = 24;               ///< longer lists are thinned evenly, both ends kept
  Megahertz lowest_clock = {};        ///< lower clocks are not measured
  int max_consecutive_increases = 5;  ///< of effective energy, after which a stage ends
  double time_target = 0.01;          ///< sufficient relative half-width of the 95 % interval
  double energy_target = 0.02;        ///< sufficient relative half-width, as for time
  /// True if no clock is set and each stage is measured at the clock that its GPUs run at. No plan
  /// can be made from such a profile, so servers that plan refuse this option.
  bool as_is = false;
  friend bool operator==(const ProfilingOptions&, const ProfilingOptions&) = default;
};

struct JobSpec {
  std::string name;  ///< for display
  JobShape shape;
  Schedule schedule;    ///< of one pipeline
  Transfers transfers;  ///< between its model parts
  /// Fixed-time instructions of the stages, which no rank reports and plans take into account.
  FixedTimes fixed_times;
  /// Power of a GPU while it waits. Unset: measured while profiling.
  std::optional<PerStage<Watts>> blocking_power;
  LatencyByClock switch_latency = {};  ///< see `PlanOptions`
  Seconds min_dwell{0};
  ProfilingOptions profiling;
  Objective objective;
  /// A profile from an earlier run: the job plans at once and measures only what has changed.
  std::optional<Profile> profile;
  bool fit = false;  ///< true if plans use curves fitted to the profile, see `fit_profile`
  /// True if training is only measured: no clock is set, and no plan is made.
  bool observe = false;
  /// How the job moves along its frontier with the carbon intensity of its grid, as JSON
  /// (wire/carbon_terms.h). Empty if it does not.
  std::string carbon = {};
  /// Terms of the job's bill, as JSON (wire/cluster_terms.h). Empty if there are none.
  std::string cluster = {};
  int plans = 200;  ///< frontier points to keep ready; a server keeps fewer for long schedules
};

// Limits, above the sizes of the largest machines. They bound the memory and work that one request
// can cause, and are checked before anything of that size is allocated.
inline constexpr int kMaxRanks = 262'144;
inline constexpr int kMaxStages = 4'096;
inline constexpr int kMaxChunks = 64;                ///< model parts of one stage
inline constexpr int kMaxJobInstructions = 131'072;  ///< of one pipeline in one iteration
inline constexpr int kMaxPlans = 10'000;
/// Values that an iteration measures: pipelines x (kind, chunk) pairs of all stages.
inline constexpr std::int64_t kMaxMeasured = 4'000'000;
inline constexpr std::size_t kLongestProfile = 8 * 1024 * 1024;  ///< bytes

/// Returns true if the id is valid: 1 to 128 letters, digits or any of ._-+, except "." and "..".
bool is_job_id(std::string_view id);

/// Returns the error if the schedule does not have that number of chunks per stage, else nullopt.
std::optional<std::string> wrong_chunks(std::int64_t given, const Schedule& schedule);

std::int64_t instructions_of(const JobSpec& spec);

/// Checks that degrees are at least 1, that nothing exceeds the limits, that the schedule is valid
/// and has `shape.stages` stages, and that numbers are in range. Each violation is one diagnostic;
/// if sizes are wrong, nothing else is checked.
Status validate(const JobSpec& spec);

}  // namespace harpe
