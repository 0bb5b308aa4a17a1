#pragma once
/// \file
/// A plan that takes clock changes as free, replayed with late ones: the same clocks, not another
/// plan.

#include <optional>
#include <string>

#include "harpe/command/command/json_output.h"
#include "harpe/command/plan_cli/planning.h"

namespace harpe::command {

/// By which the clocks of a GPU are late in the replay.
inline constexpr Seconds kTypicalLatency{0.01};

/// Returns the chosen plan with each of its clock changes `kTypicalLatency` late, at worst
/// (`Frontier::plan_of_clocks`). Returns nullopt if its clocks are late already or never change.
/// O(instructions).
std::optional<Plan> replayed_late(const Frontier& frontier, const Planned& planned);

// Of `planned.late_replay`:
/// Returns "taken as free; with 10 ms each this plan saves 12.96 %, not 13.73 %, and takes 1.20 %
/// longer", or as much of it as is known.
/// \param plan  the words for the chosen plan: "this plan"
std::string free_changes_words(const Planned& planned, const std::string& plan);
/// Returns null if there is none.
Json late_replay_json(const Planned& planned);

}  // namespace harpe::command
