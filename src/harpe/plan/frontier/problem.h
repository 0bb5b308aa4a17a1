#pragma once
/// \file
/// The planning problem of one pipeline in the form the solvers want: tables of options, integers,
/// a network.

#include <cstdint>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/plan/flow/network.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/pipeline.h"

namespace harpe::plan {

/// The longest iteration that the integers hold: with sums of two such times, and what late clock
/// changes add, still below 2^63 picoseconds.
inline constexpr double kMostPicoseconds = 2e18;
/// The largest cost of an instruction, in `Problem::cost_unit`.
inline constexpr double kMostCost = 0x1p40;

/// One choice for an instruction.
struct Option {
  OperatingPoint point;
  Joules effective;       ///< energy minus blocking power times time
  std::int64_t time = 0;  ///< picoseconds, rounded to the nearest
  std::int64_t cost = 0;  ///< effective energy in `Problem::cost_unit`, rounded to the nearest
};

/// What all instructions of one (stage, chunk, kind) can choose from.
struct OptionTable {
  /// Points no other beats in time and effective energy, fastest first: times strictly rise, costs
  /// strictly fall.
  std::vector<Option> options;
  /// What all-max takes, Pareto-optimal or not: see `all_max_point`.
  OperatingPoint all_max;
  /// The lower convex hull of `options` as a network curve: nanoseconds rounded down, rates in
  /// `Problem::flow_unit` rounded down, so that it never lies above the true one.
  flow::Curve curve;
  /// Effective energy at the slow end of the hull: the least there is.
  Joules least_effective;
  int instructions = 0;  ///< how many share this table
  Seconds slowest{0};    ///< of all points, also those that others beat
  Joules dearest{0};     ///< largest effective energy of all points, whatever its sign
};

/// Everything that the frontier and plans are computed from.
struct Problem {
  Pipeline pipeline;
  Profile profile;
  std::string job;
  std::vector<Watts> blocking_power;  ///< one a stage, per GPU
  int gpus_per_stage = 1;
  std::vector<OptionTable> tables;
  std::vector<int> table;  ///< of each pipeline node
  Joules cost_unit;        ///< a power of two
  Watts flow_unit;         ///< a power of two
  flow::Network network;
  // Places of pipeline nodes and dependencies in the network. A start with one predecessor, or an
  // end with one successor, shares its node with it; the dependency between them is then no arc
  // (-1).
  std::vector<std::int32_t> start_node, end_node, node_arc, dependency_arc;

  Watts total_blocking_power() const;
  /// Effective energy in `cost_unit`, rounded to the nearest.
  std::int64_t cost(Joules effective) const;
};

/// Builds the problem; see `characterize` for what can be wrong.
Result<Problem> make_problem(const Pipeline& pipeline, const Profile& profile,
                             const CharacterizeOptions& options);

/// The lower convex hull of a table's options as `OptionTable::curve` describes it.
flow::Curve curve_of(const OptionTable& table, Watts flow_unit);

/// Whether a dependency between two instructions of one stage follows from the order between them.
/// Such a dependency is no arc of the network.
bool is_implied(const Pipeline& pipeline, const Dependency& dependency);

/// Picoseconds of an option, a multiple of 4.
std::int64_t picoseconds(Seconds time);
inline Seconds seconds_of(std::int64_t picoseconds) {
  return Seconds{static_cast<double>(picoseconds) * 1e-12};
}

/// Nanoseconds of the network, rounded down.
inline std::int64_t to_nanoseconds(Seconds time) {
  return static_cast<std::int64_t>(time.value * 1e9);
}

}  // namespace harpe::plan
