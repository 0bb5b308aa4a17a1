#pragma once
/// \file
/// A training on an emulated cluster, in simulated time: iterations under Harpe's policy, and the
/// same iterations under other policies, on the same GPUs with the same noise, stragglers and
/// failures.
///
///   auto cluster = HARPE_TRY(EmulatedCluster::make({.pipelines = 16}, std::move(pipeline)));
///   const auto outcome = emulate(cluster, {.table = table, .objective = objective}, {}, {});
///   if (outcome.ok()) use(outcome->saving(outcome->all_max));
///
/// Deterministic: the same terms give the same bytes for any number of workers. Events with a time
/// (recurring stragglers, caps, failures) follow the clock of Harpe's policy. An event affects the
/// same iteration of all policies, so all policies do the same work and their energies are
/// comparable.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/lab/emulation/emulated_cluster.h"
#include "harpe/lab/emulation/power_recorder.h"
#include "harpe/lab/emulation/stragglers.h"
#include "harpe/plan/objective/objective.h"
#include "harpe/plan/policy/plan_table.h"

namespace harpe::lab {

/// A power cap of a job that changes over time, read from a file. Each cap applies from its time
/// until that of the next, and the last one until the end.
struct PowerCapTrace {
  struct Cap {
    Seconds from;
    Watts power;  ///< of all GPUs of the job, on average over an iteration
    friend bool operator==(const Cap&, const Cap&) = default;
  };
  std::vector<Cap> caps = {};  ///< by rising time

  /// Returns the cap at a time; nullopt before the first one.
  std::optional<Watts> at(Seconds time) const;
};

/// Reads CSV with the columns `time_s,watts`; times must rise from row to row. Reports all
/// diagnostics at once, each with its line.
Result<PowerCapTrace> parse_power_cap_trace(std::string_view text, const std::string& file);

struct CheckpointTerms {
  std::int64_t every = 0;  ///< iterations; 0: never
  Seconds time{0};         ///< during which all GPUs wait
};

/// Failures of the whole cluster. The training restarts from its last checkpoint and repeats the
/// iterations since then.
struct FailureTerms {
  Seconds mean_between{0};  ///< mean of an exponential distribution; 0: no failures
  Seconds restart{0};       ///< during which all GPUs wait
};

/// Iterations until the plans of a real job react to a straggler: detection takes three slow
/// iterations, and new plans take effect about five iterations after they are made, so that all
/// ranks have them.
inline constexpr int kUsualReaction = 8;

struct EmulationTerms {
  std::int64_t iterations = 1000;  ///< length of the training; see `time`
  /// If above 0, the training lasts this long by the clock of Harpe's policy instead, rounded up to
  /// whole iterations.
  Seconds time{0};
  StragglerTerms stragglers = {};
  std::string straggler_file = {};  ///< of the trace, for diagnostics
  PowerCapTrace power_cap = {};     ///< of all GPUs of the cluster
  CheckpointTerms checkpoints = {};
  FailureTerms failures = {};
  int reaction = kUsualReaction;  ///< see `EmulatedPolicy`
};

/// The plans that run on the cluster. Refers to the table.
struct EmulatedPlans {
  const plan::PlanTable& table;
  Objective objective = {};  ///< without a power cap: see `EmulationTerms`
  /// A fixed plan for all pipelines to compare with, such as one clock for all GPUs.
  std::optional<plan::TablePlan> rival = {};
};

/// Time and energy of the training under a policy, all GPUs together, including checkpoints,
/// restarts and repeated iterations.
struct PolicyTotals {
  Seconds time{0};
  Joules energy{0};
  Watts power() const { return energy / time; }
};

struct EmulationOutcome {
  PolicyTotals harpe, all_max;
  std::optional<PolicyTotals> rival = {};
  std::int64_t iterations = 0;  ///< completed, above 0
  std::int64_t executed = 0;    ///< including the iterations lost by failures
  std::int64_t straggling = 0;  ///< executed, with at least one slow or throttled pipeline
  std::int64_t above_cap = 0;   ///< executed, with plans that draw more than the cap
  std::int64_t failures = 0, checkpoints = 0;
  /// Iterations that begin with other plans than the iteration before.
  std::int64_t plan_changes = 0;

  /// Returns the share of the other policy's energy that Harpe saves.
  double saving(const PolicyTotals& other) const { return 1 - harpe.energy / other.energy; }
};

/// Called after each iteration of Harpe's policy with its start, time and energy.
using IterationObserver =
    std::function<void(std::int64_t number, Seconds begin, const ClusterIteration& iteration)>;

struct EmulationHooks {
  PipelineWorkers workers = {};
  std::function<void(double)> progress = {};  ///< called regularly with the completed share
  IterationObserver observe = {};
  /// Recorders for Harpe's policy, all-max and the rival, in this order. A policy whose recorder is
  /// null or missing is not recorded.
  std::vector<PowerRecorder*> power = {};
};

/// Runs the training. Adds its plans to the cluster. Fails if a term is out of its range, and with
/// `kInfeasible` if failures prevent the training from ending. O(iterations x pipelines x
/// instructions) with noise; without, see `EmulatedCluster`.
Result<EmulationOutcome> emulate(EmulatedCluster& cluster, const EmulatedPlans& plans,
                                 const EmulationTerms& terms, const EmulationHooks& hooks);

/// Returns the plan that runs all computations at one clock.
/// \param all_max  of the same pipeline
plan::TablePlan at_one_clock(plan::TablePlan all_max, Megahertz clock);

/// Fails if a throttled clock is below the lowest measured clock.
Status check_throttles(const EmulationTerms& terms, const EmulatedPipeline& pipeline);

/// Returns how much slower a pipeline is at all-max for each clock of `possible_throttles`: a
/// factor, at least 1.
Result<std::vector<double>> throttled_slowdowns(const EmulationTerms& terms,
                                                EmulatedPipeline pipeline,
                                                const plan::TablePlan& all_max);

/// Returns the iteration times of all possible stragglers, which the table should have plans for.
/// \param fastest, all_max  times of an iteration by the fastest plan and at all-max
/// \param throttled         `throttled_slowdowns`
std::vector<Seconds> waits_for(const StragglerTerms& stragglers, Seconds fastest, Seconds all_max,
                               std::span<const double> throttled = {});

}  // namespace harpe::lab
