#pragma once
/// \file
/// From operating points to a plan on paper.

#include <vector>

#include "harpe/plan/frontier/problem.h"
#include "harpe/plan/frontier/switching.h"

namespace harpe {

/// The plan of these operating points, one a pipeline node, every instruction as early as it can
/// start, with the late changes (none, or one a node) ahead of them. Its iteration time is its
/// makespan; energy and bound are left at 0.
Plan earliest_plan(const Problem& problem, const std::vector<OperatingPoint>& points,
                   const std::vector<LateChange>& late);

}  // namespace harpe
