#pragma once
/// \file
/// The choice of the plan that each pipeline runs, by the objective and the stragglers.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/plan/objective/objective.h"
#include "harpe/plan/policy/plan_table.h"

namespace harpe::plan {

/// A pipeline that is slower than planned, declared by the operators of the machines or detected.
struct Straggler {
  int pipeline = 0;
  double factor = 1;  ///< its iteration time relative to a healthy pipeline's; above 1
  std::optional<Seconds> until = {};  ///< since 1970; then it counts as healed
  bool detected = false;              ///< true if the job itself detected it
  /// For a declared straggler: its measured factor at all-max; nullopt if not measured.
  std::optional<double> seen = {};
  friend bool operator==(const Straggler&, const Straggler&) = default;
};
inline constexpr double kMostStragglerFactor = 1000;

/// A pipeline whose costs differ from the profile's.
struct SlowPipeline {
  int pipeline = 0;
  std::vector<double> factors;  ///< time of each stage's computations relative to the profile
  double error = 0;             ///< relative standard error of a factor
  Seconds fastest{};            ///< makespan at all-max, from the whole graph
  Seconds outside{};  ///< declared time beyond `fastest`: a delay outside the computations
  /// Declared time beyond `fastest` and `outside` that was not observed. If the delay began before
  /// it was declared, it may be a part of the overhead that was measured for all iterations.
  Seconds doubted{};
  /// True if the factors were measured at all-max, so that nothing makes the pipeline faster. Until
  /// then the pipeline runs at all-max, and the others wait only for the declared time.
  bool settled = false;
  bool at_all_max = false;                    ///< it must run at all-max for now
  std::shared_ptr<const PlanTable> own = {};  ///< plans for these costs; null if there are none yet

  Seconds least_time() const { return fastest + outside; }
};

/// Returns true if all stages have the same factor. Then every plan slows down by this factor.
bool is_uniform(const SlowPipeline& slow);

/// Returns the time by which the computations must end so that the pipeline ends by `wait_until`,
/// even if as much of the overhead as is doubted belongs to this pipeline.
Seconds end_of_computations(const SlowPipeline& slow, Seconds wait_until, Seconds overhead);

/// A reference to the plan that a pipeline runs.
struct PlanRef {
  enum class From : unsigned char {
    kShared,  ///< the job's table
    kOwn,     ///< the table for the pipeline's own costs
    kAllMax,
  };
  From from = From::kShared;
  std::uint32_t plan = 0;  ///< position in `PlanTable::plans`
  friend bool operator==(const PlanRef&, const PlanRef&) = default;
};

struct PlanChoice {
  std::vector<PlanRef> plan_of;  ///< one for each pipeline
  Seconds objective_time{};  ///< iteration time of the plan for the objective, without stragglers
  Seconds wait_until{};      ///< T': end of the slowest pipeline
  friend bool operator==(const PlanChoice&, const PlanChoice&) = default;
};

/// Returns the objective of a job as the objective of each of its pipelines: deadlines less the
/// overhead outside the pipeline, power caps divided by the number of pipelines.
Objective of_one_pipeline(Objective objective, Seconds overhead, int pipelines);

/// Chooses a plan for each pipeline. T' is the longest of: the time of the plan for the objective,
/// the time of a straggler that the objective names, the least time of the slowest pipeline. Each
/// pipeline runs the plan of least energy that ends by T', made for its own costs, or all-max if
/// there is none yet. Under a power cap, slow pipelines run no faster plan than the others.
/// \param overhead  time of an iteration outside its pipeline (optimizer, gradient exchange),
///                  which deadlines include
/// O(pipelines + slow pipelines log plans), O(plans) for a power cap.
PlanChoice choose_plans(const PlanTable& plans, const Objective& objective, Seconds overhead,
                        int pipelines, std::span<const SlowPipeline> slow);

/// Fails with `kInfeasible` if no plan meets the objective; the error names what is possible.
Status check_objective(const PlanTable& plans, const Objective& objective, Seconds overhead,
                       int pipelines);

}  // namespace harpe::plan
