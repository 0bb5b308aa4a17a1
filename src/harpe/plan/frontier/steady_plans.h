#pragma once
/// \file
/// Plans in which every stage repeats one pattern of settings.
///
/// While all stages of a pipeline are at work, the slowest of them sets the pace: a stage that is
/// faster waits, and it can run ahead of the others by a few micro-batches at most. Where changing
/// a setting costs something, a stage gains little from more than two settings: one for its
/// forwards and one for what goes back. So for every pace each stage takes the cheapest pair that
/// keeps it. Of these plans those on the lower hull over the pace are worth having: between two of
/// them, some micro-batches at the one and the rest at the other cost less than any single pattern.

#include <vector>

#include "harpe/plan/frontier/late_costs.h"
#include "harpe/plan/frontier/point_costs.h"

namespace harpe::plan {

/// Returns the plans on that hull, fastest pace first. None if a stage has no setting that all its
/// forwards have, or none that all its other computations have. O(stages x settings^2)
std::vector<PointChoices> steady_plans(const LateCosts& costs);

}  // namespace harpe::plan
