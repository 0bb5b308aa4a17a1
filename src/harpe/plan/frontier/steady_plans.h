#pragma once
/// \file
/// Plans in which every stage repeats one pattern of settings.
///
/// While all stages of a pipeline are busy, the slowest stage sets the pace. A faster stage waits,
/// because it can run ahead of the others by only a few micro-batches. If a change of setting costs
/// time or energy, a stage gains little from more than two settings: one for its forwards and one
/// for its other computations. For every pace, each stage uses the cheapest pair that keeps the
/// pace. Only the plans on the lower hull over the pace are useful: between two of them, some
/// micro-batches at one plan and the rest at the other cost less than any single pattern.

#include <vector>

#include "harpe/plan/frontier/late_costs.h"
#include "harpe/plan/frontier/point_costs.h"

namespace harpe::plan {

/// Returns the plans on that hull, fastest pace first. Returns no plans if a stage has no setting
/// that all its forwards have, or none that all its other computations have.
/// O(stages x settings^2)
std::vector<PointChoices> steady_plans(const LateCosts& costs);

}  // namespace harpe::plan
