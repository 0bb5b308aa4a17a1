#pragma once
/// \file
/// Plans along a frontier, made ahead so that a decision is a look-up.
///
/// Immutable; all functions may be called at once from several threads. Look-ups are O(log plans).

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/json.h"
#include "harpe/base/result.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/objective/objective.h"

namespace harpe::plan {

/// Clocks, and what else there is of each stage, of all plans that a table may hold.
inline constexpr std::int64_t kMaxPlanCells = 10'000'000;

/// One plan, as far as a job needs it. All numbers are of one pipeline, blocking included.
struct TablePlan {
  Seconds time;   ///< makespan
  Joules energy;  ///< of one iteration that ends at `time`
  /// Clocks of each stage in the order of its list; 0 MHz where there is no choice.
  std::vector<std::vector<Megahertz>> clocks;
  /// Of each stage and GPU: seconds and joules of its computations, waiting left out.
  std::vector<Seconds> compute_time;
  std::vector<Joules> compute_energy;
  /// How far the plan is above the least energy that is proven to be needed for its time, as a
  /// fraction; none: not known.
  std::optional<double> gap = {};
  bool for_objective = false;  ///< see `PlanTable::for_objective`
  /// Beside each clock; empty where the plan has no knobs.
  std::vector<std::vector<Knobs>> knobs = {};

  InstructionSetting setting(std::size_t stage, std::size_t position) const {
    return {clocks[stage][position], knobs.empty() ? Knobs{} : knobs[stage][position]};
  }

  std::optional<Joules> lower_bound() const {
    return gap ? std::optional(energy / (1 + *gap)) : std::nullopt;
  }
};

class PlanTable {
 public:
  struct Options {
    /// Between the shortest time and the time from which slower saves nothing; may be 0.
    int plans = 200;
    /// For pipelines that wait until these times, beside the fastest; empty: `plans` of them.
    std::vector<Seconds> times = {};
    std::optional<Objective> objective = {};  ///< of one pipeline: its plan is among them
    /// How plans are found; a search that goes on is for the objective's alone.
    PlanOptions plan;
    std::function<bool()> wanted = {};  ///< asked before each plan; when it says no, `kUnavailable`
  };
  /// Plans at even distances of time, the fastest, that of least energy (where there is any along
  /// the frontier) and that for the objective (`plan_for`) among them; those others that another
  /// beats in time and effective energy are left out.
  static Result<PlanTable> build(const Frontier& frontier, const Options& options,
                                 const Progress& progress = {});
  /// The plans of two tables of one frontier that none of the other beats: every look-up finds what
  /// is at least as good as in either. Of plans for objectives it has the one of `other`, if there
  /// is one.
  static PlanTable merged(const PlanTable& one, const PlanTable& other);

  const TablePlan& all_max() const { return all_max_; }
  /// By rising time, falling effective energy. Never empty.
  const std::vector<TablePlan>& plans() const { return plans_; }
  Watts waiting_power() const { return waiting_power_; }  ///< of all GPUs of a pipeline that waits
  /// `Frontier::one_setting` without knobs: one clock for all GPUs. Empty in tables of earlier
  /// versions.
  const std::vector<OneSettingPoint>& one_clock() const { return one_clock_; }

  /// For which one of the plans was made, of one pipeline.
  const std::optional<Objective>& objective() const { return objective_; }

  // Positions in `plans()`.
  /// What `plan_for` finds for `objective()`; none where no plan meets it.
  std::optional<std::size_t> for_objective() const;
  /// Least iteration energy among those that take at most `deadline`; the fastest if none does.
  std::size_t for_deadline(Seconds deadline) const;
  /// Least energy among those that take at most `wait_until`, when the pipeline waits until then
  /// anyway: the slowest of them. The fastest if none takes so little.
  std::size_t for_waiting_until(Seconds wait_until) const;
  /// The fastest whose average power is at most `cap` (watts of one pipeline); that of least power
  /// if none is.
  std::size_t for_power_cap(Watts cap) const;
  std::size_t of_least_energy() const { return best_.back(); }

  /// Sums `compute_time` and `compute_energy` of all plans anew, from another profile: the one that
  /// iterations are compared with. Instructions at settings that it lacks count nothing.
  void recount(const Schedule& schedule, const Profile& profile);

  /// harpe.plan_table/1: JSON for clients. Made in one go, however large.
  std::string json() const;
  /// harpe.plan_table/2: JSON for stores, a fraction of the size, which reads back the same.
  std::string stored_text() const;
  /// Either; members that are not known are left out.
  static Result<PlanTable> parse(std::string_view text, const std::string& file);
  /// The same of a document that is parsed already.
  static Result<PlanTable> read(const JsonValue& document, const std::string& file);

 private:
  PlanTable() = default;
  /// Keeps of `found` what no other one beats.
  void take(std::vector<TablePlan> found);
  void index();

  TablePlan all_max_;
  std::optional<Objective> objective_;
  std::vector<TablePlan> plans_;
  Watts waiting_power_{};
  std::vector<OneSettingPoint> one_clock_;
  std::vector<std::size_t> best_;  ///< of least energy among `plans_` up to each position
};

/// By how much of its energy the plan for the objective in `found` is better than the one in
/// `known`, of the same frontier and objective: below 0 where it is worse, 0 where either lacks
/// one. What a pipeline draws while it waits for a straggler counts, too.
double objective_gain(const PlanTable& known, const PlanTable& found);

}  // namespace harpe::plan
