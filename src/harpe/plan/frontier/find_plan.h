#pragma once
/// \file
/// Which searches to run for a plan, and from where.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "harpe/plan/frontier/plan_search.h"

namespace harpe::plan {

/// Assignments on the lower convex hull of known ones and of those decoded from some relaxed
/// optima, fastest first.
std::vector<Milestone> find_milestones(const SearchOrder& layout,
                                       std::span<const flow::State> relaxed,
                                       std::vector<Milestone> known = {});

/// What the searches start from.
struct SearchStart {
  std::int64_t deadline;             ///< picoseconds
  std::vector<flow::State> relaxed;  ///< optima at or a little before the deadline
  std::vector<flow::State> around;   ///< and on both sides of it
  std::vector<flow::State> close;    ///< and so near that their prices are those of the deadline
  std::span<const Milestone> milestones;
  double curvature = 0;  ///< of the relaxed cost, see `PipelineBeam`
};

/// The assignment for a deadline, with the effort asked for.
Assignment find_plan(const SearchOrder& layout, const SearchStart& start, Effort effort);

/// A search that goes on after `find_plan`.
struct LongSearch {
  std::int64_t windows = 0;  ///< see `WindowSearch`
  /// Told now and then how many windows were tried and the least cost; false ends the search.
  std::function<bool(std::int64_t windows, std::int64_t cost)> go_on = {};
};
/// The best assignment of a search from `found`, in rounds of rising length: beams over the whole
/// pipeline, then windows.
Assignment search_on(const SearchOrder& layout, const SearchStart& start, Assignment found,
                     const LongSearch& search);

/// Assignments for many deadlines, found together in a fraction of the time of a search for each:
/// decoding at one deadline starts from the shares that did best at the one before, and each
/// assignment is in the end spliced with its neighbours on the lower hull of all that were found.
/// Same calls, same assignments.
class PlansAlong {
 public:
  PlansAlong(const SearchOrder& layout, std::span<const Milestone> known)
      : layout_(layout), milestones_(known.begin(), known.end()) {}

  /// Searches near a deadline, from the relaxed optimum at or a little before it.
  /// \param deadline  picoseconds
  void search(std::int64_t deadline, const flow::State& relaxed);
  /// The best assignment for a deadline from all that was found.
  Assignment at(std::int64_t deadline) const;

 private:
  const SearchOrder& layout_;
  std::vector<Milestone> milestones_;         // on the lower hull
  std::map<std::int64_t, Assignment> found_;  // of each deadline that was searched
  std::vector<double> shares_;                // that did best at the last deadline
};

/// How often to do something that costs as much as a pass along the pipeline, so that it takes
/// about the same time for every size, within limits.
int passes(const SearchOrder& layout, std::int64_t work, std::int64_t least, std::int64_t most);

}  // namespace harpe::plan
