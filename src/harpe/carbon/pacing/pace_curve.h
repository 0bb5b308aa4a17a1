#pragma once
/// \file
/// How fast a job can run and what it draws then: the choices that a frontier, a table of plans or
/// a profile of power limits leaves, once each of them is only a speed and a power.
///
/// Speed is relative to the fastest choice, so that work is counted in seconds at the fastest pace.
/// Kept are the choices on the lower convex hull of power over speed: between two of them a job can
/// alternate, and whatever lies above the hull is beaten by such a mixture.

#include <cstddef>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe::carbon {

struct CurvePace {
  double speed = 1;        ///< of the fastest, above 0
  Watts power{};           ///< of all that the job holds, while it runs so
  std::size_t choice = 0;  ///< which of those given
};

/// What a choice takes for one piece of work, such as an iteration.
struct PieceCost {
  Seconds time{};
  Joules energy{};
};

/// Invariant: at least one pace; speeds rise to 1, powers and slopes rise strictly.
class PaceCurve {
 public:
  /// \param pieces      of the same work under each choice, in any order
  /// \param host_power  drawn beside it as long as the job runs, such as the nodes'
  /// Fails without a choice, and for numbers that are no numbers above 0.
  static Result<PaceCurve> make(const std::vector<PieceCost>& pieces, Watts host_power = {});

  const std::vector<CurvePace>& paces() const { return paces_; }
  const CurvePace& fastest() const { return paces_.back(); }
  const CurvePace& slowest() const { return paces_.front(); }

  /// Joules that a second of work at the fastest pace costs more, from a pace to the next faster
  /// one.
  double slope(std::size_t pace) const { return slopes_[pace]; }
  /// The pace that minimises weight * power - value * speed. O(log paces).
  std::size_t best(double weight, double value) const;
  /// The slowest pace of at least this speed; the fastest where none is.
  std::size_t at_least(double speed) const;

 private:
  std::vector<CurvePace> paces_;
  std::vector<double> slopes_;
};

/// One pace all along, or the mixture of two that are neighbours.
struct SteadyPace {
  double speed = 1;
  Watts power{};
};
/// At `speed`; the slowest pace where that is faster, the fastest where that is slower. O(log
/// paces).
SteadyPace steady_pace(const PaceCurve& curve, double speed);

}  // namespace harpe::carbon
