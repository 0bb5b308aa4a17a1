#pragma once
/// \file
/// The curve of speed and power on which a job can run: the choices of a frontier, a table of plans
/// or a profile of power limits, each reduced to a speed and a power.
///
/// Speed is relative to the fastest choice, so that work is counted in seconds at the fastest pace.
/// The curve keeps the choices on the lower convex hull of power over speed: a job can alternate
/// between two of them, and such a mixture is better than any choice above the hull.

#include <cstddef>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe::carbon {

struct CurvePace {
  double speed = 1;        ///< relative to the fastest, above 0
  Watts power{};           ///< of all the job's resources, while it runs at this pace
  std::size_t choice = 0;  ///< index of the given choice
};

/// Time and energy of one piece of work, such as an iteration, under one choice.
struct PieceCost {
  Seconds time{};
  Joules energy{};
};

/// The paces of a job. Invariant: at least one pace; speeds rise to 1, powers and slopes rise
/// strictly.
class PaceCurve {
 public:
  /// \param pieces      of the same work under each choice, in any order
  /// \param host_power  additional power while the job runs, such as the nodes'; at least 0 Fails
  /// without a choice, or if a time or energy is not a number above 0.
  static Result<PaceCurve> make(const std::vector<PieceCost>& pieces, Watts host_power = {});

  const std::vector<CurvePace>& paces() const { return paces_; }
  const CurvePace& fastest() const { return paces_.back(); }
  const CurvePace& slowest() const { return paces_.front(); }

  /// Returns the additional joules for a second of work at the fastest pace, when a pace is
  /// replaced by the next faster one.
  double slope(std::size_t pace) const { return slopes_[pace]; }
  /// Returns the pace that minimises weight * power - value * speed. O(log paces).
  std::size_t best(double weight, double value) const;
  /// Returns the slowest pace with at least this speed; the fastest if there is none.
  std::size_t at_least(double speed) const;

 private:
  std::vector<CurvePace> paces_;
  std::vector<double> slopes_;
};

/// One constant pace, or a mixture of two neighbouring paces.
struct SteadyPace {
  double speed = 1;
  Watts power{};
};
/// Returns the steady pace at `speed`, limited to the slowest and the fastest pace. O(log paces).
SteadyPace steady_pace(const PaceCurve& curve, double speed);

}  // namespace harpe::carbon
