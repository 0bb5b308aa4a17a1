#pragma once
/// \file
/// Plans along a frontier, computed in advance so that a decision is a look-up.
///
/// Immutable except for `recount`; const functions may be called from several threads at once.
/// Look-ups are O(log plans).

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

/// Most cells in all plans of a table together: clocks, and the numbers for each stage.
inline constexpr std::int64_t kMaxPlanCells = 10'000'000;

/// One plan with the data that a job needs. All numbers are for one pipeline, blocking included.
struct TablePlan {
  Seconds time;   ///< makespan
  Joules energy;  ///< energy of one iteration that ends at `time`
  /// Clocks of each stage in the order of its list; 0 MHz if the instruction has no choice.
  std::vector<std::vector<Megahertz>> clocks;
  /// Seconds and joules of the computations of each stage, per GPU, without waiting.
  std::vector<Seconds> compute_time;
  std::vector<Joules> compute_energy;
  /// Gap to the least energy proven necessary for this time, as a fraction; nullopt if not known.
  std::optional<double> gap = {};
  bool for_objective = false;  ///< see `PlanTable::for_objective`
  /// Knobs for each clock; empty if the plan has no knobs.
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
    /// Number of plans between the shortest time and the time above which energy no longer falls;
    /// may be 0.
    int plans = 200;
    /// Times that pipelines may have to wait until: one plan for each, besides the fastest; empty:
    /// `plans` evenly spaced times.
    std::vector<Seconds> times = {};
    std::optional<Objective> objective = {};  ///< for one pipeline; the table has its plan
    /// Options of all plans; `search_windows` applies only to the objective's plan.
    PlanOptions plan;
    /// Called before each plan. If it returns false, `build` fails with `kUnavailable`.
    std::function<bool()> wanted = {};
  };
  /// Builds a table of plans at evenly spaced times, with the fastest plan, the plan of least
  /// energy (if `plans` or `times` give any plans along the frontier) and the plan for the
  /// objective (`plan_for`). Leaves out every plan, other than the objective's, that another beats
  /// in both time and effective energy.
  static Result<PlanTable> build(const Frontier& frontier, const Options& options,
                                 const Progress& progress = {});
  /// Merges two tables of one frontier and keeps the plans that no other beats, so that every
  /// look-up is at least as good as in either table. The plan for an objective is that of `other`
  /// if `other` has an objective.
  static PlanTable merged(const PlanTable& one, const PlanTable& other);

  const TablePlan& all_max() const { return all_max_; }
  /// Returns the plans by rising time and falling effective energy. Never empty.
  const std::vector<TablePlan>& plans() const { return plans_; }
  Watts waiting_power() const { return waiting_power_; }  ///< of all GPUs of a waiting pipeline
  /// Returns the points of `Frontier::one_setting` without knobs: one clock for all GPUs. Empty in
  /// tables of earlier versions.
  const std::vector<OneSettingPoint>& one_clock() const { return one_clock_; }

  /// Returns the objective, of one pipeline, that one of the plans was made for.
  const std::optional<Objective>& objective() const { return objective_; }

  // The functions below return positions in `plans()`.
  /// Returns the plan for `objective()`, see `plan_for`; nullopt if no plan meets it.
  std::optional<std::size_t> for_objective() const;
  /// Returns the plan of least iteration energy that meets `deadline`; the fastest if none does.
  std::size_t for_deadline(Seconds deadline) const;
  /// Returns the plan of least energy for a pipeline that waits until `wait_until` in any case: the
  /// slowest plan that takes at most this time; the fastest if none does.
  std::size_t for_waiting_until(Seconds wait_until) const;
  /// Returns the fastest plan with an average power of at most `cap` (watts of one pipeline); the
  /// plan of least power if there is none.
  std::size_t for_power_cap(Watts cap) const;
  std::size_t of_least_energy() const { return best_.back(); }

  /// Recomputes `compute_time` and `compute_energy` of all plans from another profile, to which
  /// iterations are compared. Instructions at settings that the profile lacks are not counted.
  void recount(const Schedule& schedule, const Profile& profile);

  /// Returns harpe.plan_table/1: JSON for clients, as one string of any size.
  std::string json() const;
  /// Returns harpe.plan_table/2: JSON for stores, a fraction of the size. Reads back unchanged.
  std::string stored_text() const;
  /// Parses either format; ignores unknown members.
  static Result<PlanTable> parse(std::string_view text, const std::string& file);
  /// Reads either format from a document that is already parsed.
  static Result<PlanTable> read(const JsonValue& document, const std::string& file);

 private:
  PlanTable() = default;
  /// Adds the plans in `found` that no other one beats.
  void take(std::vector<TablePlan> found);
  void index();

  TablePlan all_max_;
  std::optional<Objective> objective_;
  std::vector<TablePlan> plans_;
  Watts waiting_power_{};
  std::vector<OneSettingPoint> one_clock_;
  std::vector<std::size_t> best_;  ///< plan of least energy up to each position
};

/// Returns the energy that the objective's plan in `found` saves over the one in `known`, as a
/// fraction of the latter's energy: negative if it is worse, 0 if either table lacks one. Both
/// tables are of the same frontier and objective. For straggler objectives, the energy of waiting
/// for the straggler counts too.
double objective_gain(const PlanTable& known, const PlanTable& found);

}  // namespace harpe::plan
