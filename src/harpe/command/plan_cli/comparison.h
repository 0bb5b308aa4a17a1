#pragma once
/// \file
/// The rows of `harpe compare`: time and energy of every schedule, and of every way to set the
/// GPUs, under a profile.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "harpe/carbon/carbon/cluster_bill.h"
#include "harpe/command/plan_cli/planning.h"

namespace harpe::command {

Seconds seconds_since(std::chrono::steady_clock::time_point start);

/// Returns time and energy of an iteration under the plan.
carbon::IterationCost cost_of(const Plan& plan);

/// One schedule under the profile of a job.
struct ScheduleRow {
  std::string name;
  std::string why_not = {};  ///< why the profile cannot price it, one sentence; empty if it can
  std::vector<std::string> premises = {};  ///< see `PlanInputs`
  carbon::IterationCost all_max = {};
  carbon::IterationCost fastest = {};  ///< the plan of least energy without slowdown
  /// The plans that end within the fastest time of any schedule, and of the job's own schedule;
  /// nullopt if this schedule is slower.
  std::optional<carbon::IterationCost> at_fastest = {}, at_own = {};
  int peak_activations = 0;  ///< maximum of a stage, in chunks (`harpe schedule show`)
  int chunks = 1;            ///< chunks that make a whole stage
  bool recomputes = false;   ///< true if it stores the inputs of chunks and recomputes activations

  bool is_priced() const { return why_not.empty(); }
};

struct ScheduleComparison {
  std::vector<ScheduleRow> rows = {};  ///< in the requested order
  std::string fastest = {};            ///< schedule of least time; empty if none has a price
  Seconds fastest_time = {};
  Seconds own_time;  ///< the argument
};

/// Prices and plans each schedule, in parallel on as many threads as there are processors. Memory:
/// the frontiers of all schedules at once.
/// \param profile   as it was read
/// \param own_time  fastest time of the job's own schedule
/// \param names     of generators, or files
ScheduleComparison compare_schedules(const PlanJob& job, const Profile& profile, Seconds own_time,
                                     const std::vector<std::string>& names,
                                     const Progress& progress);

/// Another way to set the GPUs, at the job's objective.
struct PolicyRow {
  std::string policy;               ///< of `policy_names`
  std::string setting = {};         ///< "1290 MHz"; empty for Harpe
  std::string source = {};          ///< "profile", "model of a100-sxm"
  std::string why_not = {};         ///< missing input, one sentence; empty if nothing is missing
  carbon::IterationCost cost = {};  ///< at the objective, or as close to it as the policy gets
  bool meets_objective = true;
  std::vector<carbon::IterationCost> curve = {};  ///< fastest first
  Joules lower_bound{0};                          ///< at the time of `cost`; 0 if unknown
  /// The fastest plan by the policy's own rounded or fitted numbers, and its actual cost.
  std::optional<carbon::IterationCost> planned = {}, planned_cost = {};
  /// Time to find all plans of `curve`; nullopt if they need no search.
  std::optional<Seconds> computing_time = {};
};

/// Returns the names of all policies, in the order of the table.
const std::vector<std::string>& policy_names();

/// Returns the rows of other ways to set the GPUs. Published policies ignore late clocks and
/// stragglers; their plans are priced with both.
/// \param planned     of the job's own schedule, with plans along the frontier and rivals
/// \param policies    of `policy_names`
/// \param harpe_time  time to find `frontier` and `planned`
std::vector<PolicyRow> compare_policies(const PlanJob& job, const Frontier& frontier,
                                        const Planned& planned,
                                        const std::vector<std::string>& policies,
                                        Seconds harpe_time);

/// Adds the published policies to `planned.rivals`. Returns a sentence for each policy that needs
/// more than the profile or the schedule contains.
std::vector<std::string> add_published_rivals(const PlanJob& job, const Frontier& frontier,
                                              Planned& planned);

/// The content of `harpe compare`. At least one of the two parts has rows.
struct JobComparison {
  const Frontier& frontier;  ///< of the job's own schedule
  const Planned& planned;
  ScheduleComparison schedules;
  std::vector<PolicyRow> policies;
  std::vector<std::string> notes;
};

}  // namespace harpe::command
