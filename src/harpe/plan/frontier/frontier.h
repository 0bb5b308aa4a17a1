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
/// P_s (T - sum_{i on s} t_i)`, that is, the sum of effective energies `e_i - P_s t_i` plus `T
/// sum_s P_s` (Perseus, SOSP'24, section 4). Choosing one setting for each instruction is the
/// discrete time-cost trade-off problem; letting an instruction mix neighbouring points of its
/// lower convex hull relaxes it to the linear one, whose whole frontier is found exactly by
/// parametric minimum cuts (Fulkerson 1961, Kelley 1961, Phillips and Dessouky 1977). That frontier
/// bounds every plan from below; plans of real settings are found next to it and carry their gap.
///
/// Thread safety: a `Frontier` is immutable; all its functions may be called at once from several
/// threads.

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

/// Called now and then with the fraction done (0 to 1).
using Progress = std::function<void(double)>;

struct CharacterizeOptions {
  PerStage<Watts> blocking_power = Watts{0};  ///< per GPU
  int gpus_per_stage = 1;
  std::string job = {};
  Progress progress = {};
};

/// How much work a plan may take.
enum class Effort : unsigned char {
  kQuick,  ///< for reacting: rounding and slack hand-back only
  kFull,   ///< for planning: a local search closes most of the gap
};

/// How far a search that goes on has come.
struct SearchProgress {
  std::int64_t windows = 0;  ///< parts of the plan tried anew: the work done
  Joules energy;             ///< of the best plan so far if it waits until the deadline
  Joules lower_bound;        ///< at the deadline

  double gap() const { return (energy - lower_bound) / lower_bound; }
};

struct PlanOptions {
  Effort effort = Effort::kFull;
  /// After the search of `kFull`, goes on until it has tried so many parts of the plan anew: the
  /// same number gives the same plan. 2,000 to 20,000 take a second. Not under a dwell.
  std::int64_t search_windows = 0;
  /// Told how that search comes on, a hundred times a second or so; false ends it.
  std::function<bool(const SearchProgress&)> go_on = {};
  /// Seconds by which a new setting may come into force late, whichever part of it changes, for all
  /// clocks or by the new clock; 0 plans for free switching. With it, the plan changes a stage's
  /// setting only where that pays, and its time and energy hold for every delay up to this one.
  LatencyByClock switch_latency = {};
  /// Least seconds between two changes of a stage's setting.
  Seconds min_dwell{0};

  /// Whether changing a clock is anything but free.
  bool switching() const { return switch_latency.longest() > Seconds{0} || min_dwell > Seconds{0}; }
};

/// A point where the relaxed frontier changes its slope.
struct FrontierPoint {
  Seconds time;
  Joules lower_bound;  ///< whole pipeline, blocking included
};

/// What an iteration takes whose computations all run at one setting.
struct OneSettingPoint {
  InstructionSetting setting;
  Seconds iteration_time;
  Joules iteration_energy;  ///< whole pipeline, blocking included
};

/// The frontier of one pipeline. Copies share the data.
class Frontier {
 public:
  Seconds min_time() const;           ///< T_min: no clocks end sooner
  Seconds max_time() const;           ///< from here on, slowing down saves nothing but the wait
  Seconds least_energy_time() const;  ///< T*: the relaxed optimum of iteration energy

  /// Least energy, over all assignments of profiled settings, of an iteration that ends by
  /// `deadline` and occupies the GPUs until `deadline`. Requires `deadline >= min_time()`. O(log
  /// breakpoints).
  Joules lower_bound(Seconds deadline) const;

  /// The same or a higher bound, which `certificate` proves. Around loops of the pipeline's graph
  /// the times of real options do not add up: what that must cost is added (loops.h). And near
  /// `min_time()` options that are too long for any plan to end by the deadline are left out of the
  /// relaxation. With a switch latency in `options` a bound for plans whose clocks come so late,
  /// whatever their dwell. Takes about as long as a plan; in pipelines of over some 12,000
  /// instructions it is `lower_bound` where clocks are not late.
  Joules tight_lower_bound(Seconds deadline, const PlanOptions& options = {}) const;

  /// Lower bounds for plans whose settings come late, one a deadline, at the cost of about ten
  /// `tight_lower_bound`. Each is proven by a flow that was found for a deadline near it, so that
  /// it may be a little lower. Without late settings it is `lower_bound`.
  std::vector<Joules> tight_bounds_along(std::span<const Seconds> deadlines,
                                         const PlanOptions& options) const;

  /// All points where the slope of the lower bound changes, fastest first.
  std::vector<FrontierPoint> points() const;
  /// As many of them as it takes for the straight lines between to be at most that fraction of the
  /// energy above the lower bound. First, last and least energy are among them. O(points).
  std::vector<FrontierPoint> points(double tolerance) const;
  /// Steps of the parametric cut: every time at which an instruction starts or stops changing its
  /// duration.
  std::size_t breakpoints() const;
  std::size_t memory_bytes() const;

  /// The plan for an iteration that should end by `deadline`, of least energy. Its `iteration_time`
  /// is its makespan, which is never after `deadline`, but may lie before it where waiting costs
  /// more than it saves (past T*). Fails with `kInfeasible`, naming what is possible, below
  /// `min_time()`.
  Result<Plan> plan(Seconds deadline, const PlanOptions& options = {}) const;
  /// Plans for several deadlines, rising, for curves and pictures: found together at the cost of a
  /// few of `plan`, and nearly as good. Each ends by its deadline, or by T* where that is before
  /// it, and carries its own gap.
  /// \param options  of which only latency, dwell and effort matter
  Result<std::vector<Plan>> plans_along(std::span<const Seconds> deadlines,
                                        const Progress& progress = {},
                                        const PlanOptions& options = {}) const;
  /// The plan of least energy among the fastest: at `min_time()`, or, where late clocks rule that
  /// out, at the shortest time that a search finds.
  Result<Plan> fastest_plan(const PlanOptions& options = {}) const;
  /// The plan of least energy given that the pipeline waits until `wait_until` anyway (a
  /// straggler's iteration time): the waiting is in its `iteration_time` and energy, and it may be
  /// slower than T*.
  Result<Plan> plan_for_straggler(Seconds wait_until, const PlanOptions& options = {}) const;
  /// The fastest plan found whose average power, over all GPUs of the pipeline, is at most `cap`.
  /// It does not wait: training goes right on with its next iteration. Fails with `kInfeasible`,
  /// naming what is possible, where even the slowest plan draws more.
  Result<Plan> plan_for_power_cap(Watts cap, const PlanOptions& options = {}) const;
  /// Every instruction at its highest clock (see `all_max_point`): the baseline of all savings.
  /// With late clocks, where highest clocks differ, the changes between them are late, too; no
  /// dwell is kept.
  Plan all_max(const PlanOptions& options = {}) const;
  /// One clock, power limit and so on for the whole job, all along: what is left where a setting
  /// cannot follow the computations. Of each setting that was measured for every computation, by
  /// falling clock; may be empty. O(settings x instructions).
  std::vector<OneSettingPoint> one_setting() const;
  /// The plan of least iteration energy.
  Result<Plan> least_energy_plan(const PlanOptions& options = {}) const;

  /// The plan of given clocks, whose pipeline waits until `wait_until` where it is through before.
  /// \param clocks  of each stage, one an instruction in the order of its list, parts of what is
  ///                planned as several on their own; what has no choice takes any
  /// \param knobs   beside each clock; empty: none anywhere
  /// \returns  what the plan that the clocks are of was; `kInvalidInput` for a list of another
  ///           length or a setting that the profile lacks
  Result<Plan> plan_of_clocks(const std::vector<std::vector<Megahertz>>& clocks, Seconds wait_until,
                              const PlanOptions& options = {},
                              const std::vector<std::vector<Knobs>>& knobs = {}) const;

  /// Flow and potentials that prove `lower_bound(deadline)`, or `tight_lower_bound` of the same
  /// options where that is higher.
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
/// name all rows that the schedule needs and the profile lacks, or that it has fewer stages.
/// O(breakpoints x change per breakpoint); see docs/performance.md.
Result<Frontier> characterize(const Pipeline& pipeline, const Profile& profile,
                              const CharacterizeOptions& options);
/// The same from a schedule, without transfers.
Result<Frontier> characterize(const Result<Schedule>& schedule, const Profile& profile,
                              const CharacterizeOptions& options);

}  // namespace harpe
