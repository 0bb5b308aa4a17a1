#pragma once
/// \file
/// One clock for each stage, so that a forward takes the same time on all stages. Perseus's
/// evaluation calls this ZeusPerStage (its artifact: ZeusLocal). For comparisons. Pure.

#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/frontier/frontier.h"

namespace harpe::plan {

/// Returns a plan for each clock of the heaviest stage (the stage with the longest forward), from
/// the highest down, until some stage has its lowest clock. Every other stage gets the clock at
/// which its forward time is nearest to the heaviest stage's; this clock never exceeds the stage's
/// clock in the previous plan, nor the clock of the heaviest stage. As published, backwards are
/// ignored, so that such plans may be worse than one clock for all stages. The artifact sets power
/// limits instead of clocks; profiles have clocks.
/// \param pricing  only latency and dwell matter; the choice of clocks ignores both
/// \returns  `kInvalidInput` if some stage has no forward with a choice of clocks
Result<std::vector<Plan>> balanced_stages(const Frontier& frontier,
                                          const PlanOptions& pricing = {});

}  // namespace harpe::plan
