#pragma once
/// \file
/// Perseus's frontier as its authors published it (SOSP'24, section 5; the library lowtime), for
/// comparisons with Harpe's exact one. Pure.
///
///   const auto published = harpe::plan::PerseusFrontier::find(frontier);
///   if (published.ok()) const harpe::Result<harpe::Plan> plan = published->plan_by(deadline);
///
/// Algorithm. Points of each instruction that another beats in time and energy are dropped; times
/// are rounded down to whole units; effective energy over units is fitted by a falling exponential;
/// from the slowest plan the iteration becomes one unit shorter a step, by a minimum cut over the
/// critical instructions. At last each instruction gets the slowest clock whose units are at most
/// the planned ones.
///
/// Planned times are rounded down and planned energies come from the fit, so that no clocks reach
/// some of the points: `points` returns the planned figures, `plan` those of the chosen clocks.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/frontier/frontier.h"

namespace harpe::plan {

struct PerseusOptions {
  Seconds unit{1e-3};
  /// If three points or fewer of an instruction are left, all its points are filtered again: a
  /// point is then dropped only if another beats this share of its time and energy.
  double noise_factor = 0.95;
  /// Instructions with too few points for an exponential get straight lines through their points.
  /// Not part of the published algorithm, which refuses them.
  bool lines_through_few_points = false;
};

class PerseusFrontier {
 public:
  struct Point {
    Seconds planned_time;
    Joules planned_energy;  ///< whole pipeline, blocking included, by the fitted curves
  };

  /// \returns  `kInvalidInput` if some instruction has too few points for a curve
  static Result<PerseusFrontier> find(const Frontier& frontier, const PerseusOptions& options = {});

  /// Slowest first, one unit apart.
  std::span<const Point> points() const { return points_; }
  /// Returns the plan of a point with the profile's times and energies. O(points x changes).
  /// \param pricing  of which latency and dwell matter; the choice of clocks ignores both
  Result<Plan> plan(std::size_t point, const PlanOptions& pricing = {}) const;
  /// Returns the slowest plan that ends by `deadline` in real times; the fastest of all if none
  /// does.
  Result<Plan> plan_by(Seconds deadline, const PlanOptions& pricing = {}) const;

 private:
  struct Data;
  explicit PerseusFrontier(std::shared_ptr<const Data> data);

  std::shared_ptr<const Data> data_;
  std::vector<Point> points_;
};

}  // namespace harpe::plan
