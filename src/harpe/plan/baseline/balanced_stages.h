#pragma once
/// \file
/// One clock for each stage, so that all stages take as long for a forward: what Perseus's
/// evaluation calls ZeusPerStage (its artifact: ZeusLocal). For comparisons. Pure.

#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/frontier/frontier.h"

namespace harpe::plan {

/// Returns a plan for each clock of the heaviest stage (that of the longest forward), from the
/// highest down, until some stage has its lowest. Every other stage has the clock at which its
/// forward comes nearest to the heaviest stage's, never a higher one than in the plan before, nor
/// than the heaviest stage's. Backwards are not looked at, as published: such plans may be worse
/// than one clock for all. The artifact does so with power limits; this with clocks, which profiles
/// have.
/// \param pricing  of which latency and dwell matter; the choice of clocks ignores both
/// \returns  `kInvalidInput` if some stage has no forward with a choice of clocks
Result<std::vector<Plan>> balanced_stages(const Frontier& frontier,
                                          const PlanOptions& pricing = {});

}  // namespace harpe::plan
