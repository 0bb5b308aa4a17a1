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

/// The frontier with some of its plans, fastest first. Every point carries its clocks as runs
/// ([clock, how many, clock, how many ...] for each stage, 0 for fixed-time instructions), so that
/// its plan is rebuilt without solving; `bound` lists every point where the
/// lower bound changes its slope. Beside them stand all-max and one setting for all computations.
std::string frontier_json(const Frontier& frontier, std::span<const Plan> plans,
                          std::span<const Joules> tight_bounds = {});

/// Tells inputs apart: a hash of profile, schedule, blocking power and transfers.
std::string inputs_digest(const Frontier& frontier, const Plan& any);

}  // namespace harpe
