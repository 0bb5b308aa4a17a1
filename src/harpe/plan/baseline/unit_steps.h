#pragma once
/// \file
/// The walk along a frontier by one unit of time a step, as Perseus publishes it (SOSP'24, section
/// 5, and its library lowtime). For comparisons: Harpe's own frontier needs neither units nor a
/// fit. Pure.
///
/// Model. Every activity takes a whole number of units between its shortest and its longest; a
/// convex function says what it costs at each. All begin at their longest. A step finds the
/// activities that are critical, and in their graph the cheapest way to end one unit sooner: a
/// minimum cut with lower bounds, activities across it one unit shorter, those across it backwards
/// one unit longer.
///
/// The flow of a step is kept for the next one, which mostly needs a few paths more; the cut
/// nearest to the source is the same whichever flow proves it.

#include <cstdint>
#include <functional>
#include <vector>

namespace harpe::plan {

/// An activity between two events.
struct UnitActivity {
  int from = 0, to = 0;  ///< events
  std::int64_t shortest = 0, longest = 0;
  /// Cost at a number of units between the two; empty if both are the same.
  std::function<double(std::int64_t)> cost = {};
};

/// `to` not before `from` and `lag` units.
struct UnitDependency {
  int from = 0, to = 0;
  std::int64_t lag = 0;
};

struct UnitNetwork {
  int events = 0;  ///< 0: the beginning; events - 1: the end
  std::vector<UnitActivity> activities;
  std::vector<UnitDependency> dependencies;
};

/// A change of a step: the activity and its units from then on.
struct UnitChange {
  int activity = 0;
  std::int64_t units = 0;
};

/// The frontier as steps of one unit each.
struct UnitSteps {
  std::int64_t slowest = 0;                    ///< units of the iteration before the first step
  std::vector<std::vector<UnitChange>> steps;  ///< each ends one unit sooner than the one before
};

/// Walks from the slowest to the fastest. Requires an acyclic network.
UnitSteps walk_unit_steps(const UnitNetwork& network);

}  // namespace harpe::plan
