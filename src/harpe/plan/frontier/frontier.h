#pragma once
/// \file
/// The time-energy frontier of one training iteration, and plans along it.
///
///   const auto schedule = harpe::one_f_one_b({.stages = 8, .micro_batches = 96});
///   const auto frontier = harpe::characterize(schedule, profile, {.blocking_power = 83.64_W});
///   if (frontier.ok()) use(frontier->plan(frontier->min_time() * 1.05));
///
/// Model. An instruction i on stage s takes t_i seconds and e_i joules per GPU at its setting; a
/// GPU that waits draws the blocking power P_s. An iteration that ends at T costs `sum e_i + sum_s
/// P_s (T - sum_{i on s} t_i)`, which equals the sum of effective energies `e_i - P_s t_i` plus `T
/// sum_s P_s` (Perseus, SOSP'24, section 4). Choosing one setting for each instruction is the
/// discrete time-cost trade-off problem. Its relaxation, in which an instruction may mix
/// neighbouring points of its lower convex hull, is the linear problem, whose whole frontier is
/// computed exactly by parametric minimum cuts (Fulkerson 1961, Kelley 1961, Phillips and Dessouky
/// 1977). The relaxed frontier is a lower bound for every plan. Plans with profiled settings are
/// searched for close to it, and each records its gap.
///
/// Thread safety: a `Frontier` is immutable; all its functions may be called concurrently from
/// several threads.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/plan/frontier/certificate.h"
#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/instruction/per_stage.h"
#include "harpe/plan/instruction/setting.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/pipeline.h"

namespace harpe {

/// A callback that receives the fraction done (0 to 1) from time to time.
using Progress = std::function<void(double)>;

struct CharacterizeOptions {
  PerStage<Watts> blocking_power = Watts{0};  ///< per GPU
  int gpus_per_stage = 1;
  std::string job = {};
  Progress progress = {};
};

/// The amount of work that a search for a plan does.
enum class Effort : unsigned char {
  kQuick,  ///< for a fast reaction: only rounding and use of the slack
  kFull,   ///< for planning: a local search closes most of the gap
};

/// Progress of a search with `PlanOptions::search_windows`.
struct SearchProgress {
  std::int64_t windows = 0;  ///< number of parts of the plan searched again: the work done
  Joules energy;             ///< energy of the best plan so far if it waits until the deadline
  Joules lower_bound;        ///< lower bound at the deadline

  double gap() const { return (energy - lower_bound) / lower_bound; }
};

struct PlanOptions {
  Effort effort = Effort::kFull;
  /// Number of parts of the plan to search again after the search of `kFull`. The same number gives
  /// the same plan. 2,000 to 20,000 parts take a second. Ignored if `min_dwell` is set.
  std::int64_t search_windows = 0;
  /// Called with the progress of that search about 100 times a second. Returns false to end it.
  std::function<bool(const SearchProgress&)> go_on = {};
  /// Longest delay until a requested setting is in force, for all clocks or by the new clock,
  /// whichever part of the setting changes; 0 for free switching. With a latency, a plan changes
  /// the setting of a stage only where this saves energy, and its time and energy hold for every
  /// delay up to the latency.
  LatencyByClock switch_latency = {};
  /// Shortest time between two changes of the setting of a stage.
  Seconds min_dwell{0};

  /// Returns true if changes of settings are late or restricted by a dwell.
  bool switching() const { return switch_latency.longest() > Seconds{0} || min_dwell > Seconds{0}; }
};

/// A point where the slope of the relaxed frontier changes.
struct FrontierPoint {
  Seconds time;
  Joules lower_bound;  ///< whole pipeline, blocking included
};

/// Time and energy of an iteration whose computations all run at one setting.
struct OneSettingPoint {
  InstructionSetting setting;
  Seconds iteration_time;
  Joules iteration_energy;  ///< whole pipeline, blocking included
};

/// The time-energy frontier of one pipeline. Copies share the data.
class Frontier {
 public:
  Seconds min_time() const;           ///< T_min: the shortest iteration time of any plan
  Seconds max_time() const;           ///< the time above which slower plans save no energy
  Seconds least_energy_time() const;  ///< T*: the time of the least relaxed iteration energy

  /// Returns a lower bound of the energy of an iteration that ends by `deadline` and occupies the
  /// GPUs until `deadline`, over all assignments of profiled settings. Requires `deadline >=
  /// min_time()`. O(log breakpoints).
  Joules lower_bound(Seconds deadline) const;

  /// Returns a bound at least as high as `lower_bound`, which `certificate` proves. Around loops of
  /// the pipeline's graph the times of real options do not add up, and the bound includes the least
  /// cost of this mismatch (loops.h). Near `min_time()` the relaxation leaves out options that are
  /// too long for any plan to end by the deadline. With a switch latency in `options`, the bound
  /// holds for plans whose clocks are up to that late, with any dwell. Takes about as long as
  /// `plan`. Equals `lower_bound` for pipelines of more than about 12,000 instructions without a
  /// switch latency.
  Joules tight_lower_bound(Seconds deadline, const PlanOptions& options = {}) const;

  /// Returns one lower bound per deadline for plans with late settings, at the cost of about ten
  /// calls of `tight_lower_bound`. Each bound uses a flow that was computed for a nearby deadline,
  /// so it may be a little below `tight_lower_bound`. Without latency it equals `lower_bound`.
  std::vector<Joules> tight_bounds_along(std::span<const Seconds> deadlines,
                                         const PlanOptions& options) const;

  /// Returns all points where the slope of the lower bound changes, fastest first.
  std::vector<FrontierPoint> points() const;
  /// Returns a subset of these points such that the straight lines between them are above the lower
  /// bound by at most `tolerance`, a fraction of the energy. The first point, the last point and
  /// the point of least energy are in the subset. O(points).
  std::vector<FrontierPoint> points(double tolerance) const;
  /// Returns the number of steps of the parametric cut: the times at which an instruction starts or
  /// stops changing its duration.
  std::size_t breakpoints() const;
  std::size_t memory_bytes() const;

  /// Returns the plan of least energy found that ends by `deadline`. Its `iteration_time` is its
  /// makespan, which is never later than `deadline` but may be earlier if slower plans need more
  /// energy (past T*). Fails with `kInfeasible` if `deadline` is below `min_time()`; the message
  /// names the shortest time.
  Result<Plan> plan(Seconds deadline, const PlanOptions& options = {}) const;
  /// Returns plans for several rising deadlines, for curves and pictures. The plans are searched
  /// for together, at the cost of a few calls of `plan`, and are nearly as good. Each plan ends by
  /// its deadline, or by T* if T* is earlier, and has its own gap.
  /// \param options  only latency, dwell and effort are used
  Result<std::vector<Plan>> plans_along(std::span<const Seconds> deadlines,
                                        const Progress& progress = {},
                                        const PlanOptions& options = {}) const;
  /// Returns the plan of least energy among the fastest plans: at `min_time()`, or with late clocks
  /// or a dwell at the shortest time that a search finds.
  Result<Plan> fastest_plan(const PlanOptions& options = {}) const;
  /// Returns the plan of least energy for a pipeline that must wait until `wait_until` (the
  /// iteration time of a straggler). Its `iteration_time` and energy include the wait, and it may
  /// be slower than T*.
  Result<Plan> plan_for_straggler(Seconds wait_until, const PlanOptions& options = {}) const;
  /// Returns the fastest plan found whose average power, over all GPUs of the pipeline, is at most
  /// `cap`. The plan does not wait: the next iteration starts immediately. Fails with `kInfeasible`
  /// if even the slowest plan draws more than `cap`; the message names the power that is possible.
  Result<Plan> plan_for_power_cap(Watts cap, const PlanOptions& options = {}) const;
  /// Returns the plan with every instruction at its highest clock (see `all_max_point`), the
  /// baseline of all savings. With a switch latency, the changes between different highest clocks
  /// are late, too. The dwell is ignored.
  Plan all_max(const PlanOptions& options = {}) const;
  /// Returns the iteration time and energy with one setting (clock, power limit and so on) for the
  /// whole job, for systems that cannot change the setting between computations. The list has one
  /// point for each setting that was measured for every computation, by falling clock; it may be
  /// empty. O(settings x instructions).
  std::vector<OneSettingPoint> one_setting() const;
  /// Returns the plan of least iteration energy found.
  Result<Plan> least_energy_plan(const PlanOptions& options = {}) const;

  /// Returns the plan with the given clocks. If its makespan is below `wait_until`, the pipeline
  /// waits until then.
  /// \param clocks  for each stage, one clock per instruction in list order; an instruction that is
  ///                planned in parts has one clock per part; the clock of an instruction without a
  ///                choice is ignored
  /// \param knobs   the knobs that go with each clock; empty if no instruction has knobs
  /// \returns  the plan that the clocks were taken from; `kInvalidInput` if a list has the wrong
  ///           length or the profile lacks a setting
  Result<Plan> plan_of_clocks(const std::vector<std::vector<Megahertz>>& clocks, Seconds wait_until,
                              const PlanOptions& options = {},
                              const std::vector<std::vector<Knobs>>& knobs = {}) const;

  /// Returns a flow and potentials that prove `lower_bound(deadline)`, or `tight_lower_bound` with
  /// the same options if it is higher.
  Result<Certificate> certificate(Seconds deadline, const PlanOptions& options = {}) const;

  const Pipeline& pipeline() const;
  const Profile& profile() const;

  struct Data;
  explicit Frontier(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

 private:
  Result<std::vector<Plan>> switching_plans_along(std::span<const Seconds> deadlines,
                                                  const Progress& progress,
                                                  const PlanOptions& options) const;

  std::shared_ptr<const Data> data_;
};

/// Computes the whole frontier. Fused instructions (`recompute_backward`, `forward_backward`)
/// without rows in the profile are planned as their two halves, one after the other. Diagnostics
/// name every row that the schedule needs and the profile lacks, and a profile with fewer stages
/// than the schedule. O(breakpoints x change per breakpoint); see docs/performance.md.
Result<Frontier> characterize(const Pipeline& pipeline, const Profile& profile,
                              const CharacterizeOptions& options);
/// Computes the frontier of a schedule without transfers.
Result<Frontier> characterize(const Result<Schedule>& schedule, const Profile& profile,
                              const CharacterizeOptions& options);

}  // namespace harpe
