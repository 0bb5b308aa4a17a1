#pragma once
/// \file
/// Which plan each pipeline runs: by the objective, and as stragglers allow.

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

/// A pipeline that is slower than planned. Declared by those who run the machines, or detected.
struct Straggler {
  int pipeline = 0;
  double factor = 1;                  ///< its iteration over that of a healthy one; above 1
  std::optional<Seconds> until = {};  ///< since 1970; then it counts as healed
  bool detected = false;              ///< by the job itself
  /// Of one that is declared: how much slower it is at all-max.
  std::optional<double> seen = {};
  friend bool operator==(const Straggler&, const Straggler&) = default;
};
inline constexpr double kMostStragglerFactor = 1000;

/// A pipeline with costs of its own.
struct SlowPipeline {
  int pipeline = 0;
  std::vector<double> factors;  ///< of the time of each stage's computations, over the profile
  double error = 0;             ///< relative standard error of a factor
  Seconds fastest{};            ///< its makespan at all-max, from the whole graph
  Seconds outside{};            ///< declared beyond that: a delay that no computation shows
  /// Declared beyond that, too, but not seen. What all iterations take beyond their computations
  /// may be this, where the delay is older than its declaration.
  Seconds doubted{};
  /// The factors were measured at all-max: nothing makes the pipeline faster. Until then it runs at
  /// all-max, and the others wait for what was declared alone.
  bool settled = false;
  bool at_all_max = false;                    ///< it is to run nothing slower for now
  std::shared_ptr<const PlanTable> own = {};  ///< plans for these costs; null: none yet

  Seconds least_time() const { return fastest + outside; }
};

/// Whether all its stages are as much slower: so is every plan then.
bool is_uniform(const SlowPipeline& slow);

/// When its computations are to be through, so that it ends by `wait_until` also where as much of
/// the overhead as is doubted is its own.
Seconds end_of_computations(const SlowPipeline& slow, Seconds wait_until, Seconds overhead);

/// What a pipeline runs.
struct PlanRef {
  enum class From : unsigned char {
    kShared,  ///< the job's table
    kOwn,     ///< the table of the pipeline's own costs
    kAllMax,
  };
  From from = From::kShared;
  std::uint32_t plan = 0;  ///< position in `PlanTable::plans`
  friend bool operator==(const PlanRef&, const PlanRef&) = default;
};

struct PlanChoice {
  std::vector<PlanRef> plan_of;  ///< of each pipeline
  Seconds objective_time{};      ///< of the plan for the objective alone
  Seconds wait_until{};          ///< T': when the last pipeline is through
  friend bool operator==(const PlanChoice&, const PlanChoice&) = default;
};

/// The objective of a job as one for each of its pipelines: deadlines without the time outside of
/// it, power caps divided.
Objective of_one_pipeline(Objective objective, Seconds overhead, int pipelines);

/// T' is the time of the plan for the objective, or the least time of the slowest pipeline where
/// that is longer. Each pipeline runs the plan of least energy that is through by then, of those
/// made for its own costs; at all-max where there are none yet. Under a power cap the slow ones run
/// no faster than the others.
/// \param overhead  time of an iteration outside its pipeline (optimizer, gradient exchange),
///                  which deadlines include
/// O(pipelines + slow pipelines log plans), O(plans) for a power cap.
PlanChoice choose_plans(const PlanTable& plans, const Objective& objective, Seconds overhead,
                        int pipelines, std::span<const SlowPipeline> slow);

/// `kInfeasible`, naming what is possible, where no plan meets the objective.
Status check_objective(const PlanTable& plans, const Objective& objective, Seconds overhead,
                       int pipelines);

}  // namespace harpe::plan
