#pragma once
/// \file
/// What `harpe carbon simulate` runs: starts spread over a series, by all processors.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/command/carbon_cli/simulation_view.h"
#include "harpe/lab/carbon_replay/carbon_simulation.h"

namespace harpe {

/// The outcome of `count` starts, the first of which are spread as evenly as all are.
/// \param progress  told the fraction done, on the calling thread; may be empty
std::vector<StartOutcome> run_starts(const CarbonSimulation& simulation, std::size_t count,
                                     const std::function<void(double)>& progress);

/// The first of these starts, at most 20, without a forecast. Of prices (`is_price`) shares are of
/// the mean cost.
Prospect foresee(const CarbonSimulation& simulation, std::size_t count, bool is_price);

/// The same job, of as many pieces of work by the same deadline, under another control.
/// Fails where the fastest of `choices` cannot meet that deadline, or one of them is no number
/// above 0.
/// \param name  of the control, for messages
Result<CarbonJob> under_control(const CarbonJob& job, const std::vector<PieceCost>& choices,
                                const std::string& name);

}  // namespace harpe
