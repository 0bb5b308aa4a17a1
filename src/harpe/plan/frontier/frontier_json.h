#pragma once
/// \file
/// `harpe.frontier/1`: the frontier as a file.
///
///   const std::vector plans = {*frontier.fastest_plan(), *frontier.least_energy_plan()};
///   save(harpe::frontier_json(frontier, plans));

#include <span>
#include <string>

#include "harpe/plan/frontier/frontier.h"

namespace harpe {

/// Returns the frontier with some of its plans, fastest first. Every point contains its clocks as
/// runs ([clock, count, clock, count ...] for each stage, clock 0 for fixed-time instructions),
/// from which its plan is rebuilt without solving. `bound` is the lower bound as a curve of
/// straight lines, at most 2e-7 of the energy below the exact bound. The file also contains the
/// time and energy of all-max and of every single setting for all computations.
std::string frontier_json(const Frontier& frontier, std::span<const Plan> plans,
                          std::span<const Joules> tight_bounds = {});

/// Returns a hash of the inputs: profile, schedule, GPUs per stage, blocking power and transfers.
std::string inputs_digest(const Frontier& frontier, const Plan& any);

}  // namespace harpe
