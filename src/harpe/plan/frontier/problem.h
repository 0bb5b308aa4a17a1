#pragma once
/// \file
/// The planning problem of one pipeline in the form that the solvers need: tables of options,
/// integers, a network.

#include <cstdint>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/plan/flow/network.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/pipeline.h"

namespace harpe::plan {

/// The longest iteration that the integers can represent: the sum of two such times and the time
/// of late clock changes stays below 2^63 picoseconds.
inline constexpr double kMostPicoseconds = 2e18;
/// The largest cost of an instruction, in `Problem::cost_unit`.
inline constexpr double kMostCost = 0x1p40;

/// One choice for an instruction.
struct Option {
  OperatingPoint point;
  Joules effective;       ///< energy minus blocking power times time
  std::int64_t time = 0;  ///< picoseconds, rounded to the nearest multiple of 4
  std::int64_t cost = 0;  ///< effective energy in `Problem::cost_unit`, rounded to the nearest
};

/// The options of all instructions of one (stage, chunk, kind).
struct OptionTable {
  /// The Pareto-optimal points in time and effective energy, fastest first: times strictly rise,
  /// costs strictly fall.
  std::vector<Option> options;
  /// The point of all-max, Pareto-optimal or not: see `all_max_point`.
  OperatingPoint all_max;
  /// The lower convex hull of `options` as a network curve. Nanoseconds, and rates in
  /// `Problem::flow_unit`, are rounded down, so that the curve never lies above the exact one.
  flow::Curve curve;
  /// The least effective energy, at the slow end of the hull.
  Joules least_effective;
  int instructions = 0;  ///< number of instructions with this table
  Seconds slowest{0};    ///< longest time of all points, Pareto-optimal or not
  Joules dearest{0};     ///< largest absolute effective energy of all points
};

/// The input of the computation of the frontier and of plans.
struct Problem {
  Pipeline pipeline;
  Profile profile;
  std::string job;
  std::vector<Watts> blocking_power;  ///< one per stage, per GPU
  int gpus_per_stage = 1;
  std::vector<OptionTable> tables;
  std::vector<int> table;  ///< table of each pipeline node
  Joules cost_unit;        ///< a power of two
  Watts flow_unit;         ///< a power of two
  flow::Network network;
  // Positions of pipeline nodes and dependencies in the network. A start with one predecessor, or
  // an end with one successor, shares its network node with it if the lag is below 1 ns. The
  // dependency between them then has no arc (-1); neither has an implied one (`is_implied`).
  std::vector<std::int32_t> start_node, end_node, node_arc, dependency_arc;

  Watts total_blocking_power() const;
  /// Returns an effective energy in `cost_unit`, rounded to the nearest.
  std::int64_t cost(Joules effective) const;
};

/// Builds the problem; see `characterize` for the diagnostics.
Result<Problem> make_problem(const Pipeline& pipeline, const Profile& profile,
                             const CharacterizeOptions& options);

/// Returns the lower convex hull of a table's options, see `OptionTable::curve`.
flow::Curve curve_of(const OptionTable& table, Watts flow_unit);

/// Returns true if a dependency between two instructions of one stage follows from their order in
/// the list. Such a dependency has no arc in the network.
bool is_implied(const Pipeline& pipeline, const Dependency& dependency);

/// Returns a time in picoseconds, rounded to the nearest multiple of 4.
std::int64_t picoseconds(Seconds time);
inline Seconds seconds_of(std::int64_t picoseconds) {
  return Seconds{static_cast<double>(picoseconds) * 1e-12};
}

/// Returns a time in nanoseconds, the unit of the network, rounded down.
inline std::int64_t to_nanoseconds(Seconds time) {
  return static_cast<std::int64_t>(time.value * 1e9);
}

}  // namespace harpe::plan
