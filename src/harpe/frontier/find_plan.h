#pragma once
/// \file
/// Which searches to run for a plan, and from where.

#include <cstdint>
#include <span>
#include <vector>

#include "harpe/frontier/plan_search.h"

namespace harpe {

/// Assignments on the lower convex hull of known ones and of those decoded from some relaxed
/// optima, fastest first.
std::vector<Milestone> find_milestones(const SearchOrder& layout,
                                       std::span<const flow::State> relaxed,
                                       std::span<const Milestone> known = {});

/// What the searches start from.
struct SearchStart {
  std::int64_t deadline;             ///< picoseconds
  std::vector<flow::State> relaxed;  ///< optima at or a little before the deadline
  std::vector<flow::State> around;   ///< and on both sides of it
  std::span<const Milestone> milestones;
};

/// The assignment for a deadline, with the effort asked for.
Assignment find_plan(const SearchOrder& layout, const SearchStart& start, Effort effort);

/// How often to do something that costs as much as a pass along the pipeline, so that it takes
/// about the same time for every size, within limits.
int passes(const SearchOrder& layout, std::int64_t work, std::int64_t least, std::int64_t most);

}  // namespace harpe
