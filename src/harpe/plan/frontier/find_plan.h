#pragma once
/// \file
/// The sequence of searches for a plan, and their starting points.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "harpe/plan/frontier/plan_search.h"

namespace harpe::plan {

/// Returns the assignments on the lower convex hull of the known assignments and of assignments
/// that are decoded from some relaxed optima, fastest first.
std::vector<Milestone> find_milestones(const SearchOrder& layout,
                                       std::span<const flow::State> relaxed,
                                       std::vector<Milestone> known = {});

/// The starting points of the searches.
struct SearchStart {
  std::int64_t deadline;             ///< picoseconds
  std::vector<flow::State> relaxed;  ///< optima at or a little before the deadline
  std::vector<flow::State> around;   ///< optima on both sides of the deadline
  std::vector<flow::State> close;    ///< optima near enough for the prices of the deadline
  std::span<const Milestone> milestones;
  double curvature = 0;  ///< curvature of the relaxed cost, see `PipelineBeam`
};

/// Returns the best assignment found for a deadline, with the requested effort.
Assignment find_plan(const SearchOrder& layout, const SearchStart& start, Effort effort);

/// The parameters of a search that continues after `find_plan`.
struct LongSearch {
  std::int64_t windows = 0;  ///< number of windows to try, see `WindowSearch`
  /// Called from time to time with the number of windows tried and the least cost. Returns false
  /// to end the search.
  std::function<bool(std::int64_t windows, std::int64_t cost)> go_on = {};
};
/// Returns the best assignment of a search from `found`, in rounds of rising length: beams over the
/// whole pipeline, then windows.
Assignment search_on(const SearchOrder& layout, const SearchStart& start, Assignment found,
                     const LongSearch& search);

/// Assignments for many deadlines, found together in a fraction of the time of separate searches.
/// Decoding at one deadline starts from the best shares of the previous deadline. Finally, the
/// neighbours of each deadline on the lower hull of all assignments are spliced. Deterministic.
class PlansAlong {
 public:
  PlansAlong(const SearchOrder& layout, std::span<const Milestone> known)
      : layout_(layout), milestones_(known.begin(), known.end()) {}

  /// Searches near a deadline, from the relaxed optimum at or a little before it.
  /// \param deadline  picoseconds
  void search(std::int64_t deadline, const flow::State& relaxed);
  /// Returns the best assignment for a deadline from all assignments found.
  Assignment at(std::int64_t deadline) const;

 private:
  const SearchOrder& layout_;
  std::vector<Milestone> milestones_;         // on the lower hull
  std::map<std::int64_t, Assignment> found_;  // by deadline
  std::vector<double> shares_;                // best shares of the last deadline
};

/// Returns `work` divided by the size of the network, from `least` to `most`: a number of passes
/// along the pipeline that take about the same time for every size.
int passes(const SearchOrder& layout, std::int64_t work, std::int64_t least, std::int64_t most);

}  // namespace harpe::plan
