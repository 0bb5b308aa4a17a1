#pragma once
/// \file
/// Perseus's frontier as its authors published it (SOSP'24, section 5; the library lowtime), for
/// comparisons with Harpe's exact one. Pure.
///
///   const auto published = harpe::plan::PerseusFrontier::find(frontier);
///   if (published.ok()) const harpe::Result<harpe::Plan> plan = published->plan_by(deadline);
///
/// Algorithm. Points of each instruction that another point beats in time and energy are dropped.
/// Times are rounded down to whole units. A falling exponential is fitted to effective energy over
/// units. From the slowest plan, each step shortens the iteration by one unit, by a minimum cut
/// over the critical instructions. Finally each instruction gets the slowest clock whose units are
/// at most the planned units.
///
/// Planned times are rounded down and planned energies come from the fit, so that clocks cannot
/// reach some of the points: `points` returns the planned figures, `plan` the figures with the
/// chosen clocks.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/frontier/frontier.h"

namespace harpe::plan {

struct PerseusOptions {
  Seconds unit{1e-3};
  /// If an instruction has three points or fewer left, all its points are filtered again: a point
  /// is then dropped only if another beats this share of its time and energy.
  double noise_factor = 0.95;
  /// True: instructions with too few points for an exponential get straight lines through their
  /// points. Not part of the published algorithm, which rejects such instructions.
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

  /// Returns the points, slowest first, one unit apart.
  std::span<const Point> points() const { return points_; }
  /// Returns the plan of a point with the profile's times and energies. O(points x changes).
  /// \param pricing  only latency and dwell matter; the choice of clocks ignores both
  Result<Plan> plan(std::size_t point, const PlanOptions& pricing = {}) const;
  /// Returns the slowest plan whose real time is at most `deadline`; the fastest of all if none is.
  Result<Plan> plan_by(Seconds deadline, const PlanOptions& pricing = {}) const;

 private:
  struct Data;
  explicit PerseusFrontier(std::shared_ptr<const Data> data);

  std::shared_ptr<const Data> data_;
  std::vector<Point> points_;
};

}  // namespace harpe::plan
