#pragma once
/// \file
/// Replay of a plan that assumes free clock changes, with late changes of the same clocks.

#include <optional>
#include <string>

#include "harpe/command/command/json_output.h"
#include "harpe/command/plan_cli/planning.h"

namespace harpe::command {

/// Latency of the clocks of a GPU in the replay.
inline constexpr Seconds kTypicalLatency{0.01};

/// Returns the chosen plan with each of its clock changes late by `kTypicalLatency`, in the worst
/// case (`Frontier::plan_of_clocks`). Nullopt if its clocks are already late or never change.
/// O(instructions).
std::optional<Plan> replayed_late(const Frontier& frontier, const Planned& planned);

// Of `planned.late_replay`:
/// Returns "assumed to be free; with 10 ms each this plan saves 12.96 %, not 13.73 %, and
/// takes 1.20 % longer", or the known part of it.
/// \param plan  the words for the chosen plan: "this plan"
std::string free_changes_words(const Planned& planned, const std::string& plan);
/// Returns null if there is none.
Json late_replay_json(const Planned& planned);

}  // namespace harpe::command
