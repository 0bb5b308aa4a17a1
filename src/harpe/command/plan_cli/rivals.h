#pragma once
/// \file
/// The comparison of a plan with one clock and one power limit for all GPUs, and with published
/// policies of others.

#include <string>
#include <vector>

#include "harpe/command/command/json_output.h"
#include "harpe/command/plan_cli/planning.h"
#include "harpe/report/report.h"

namespace harpe::command {

/// Returns "1290 MHz" or "400 W"; empty for a point of plans, which have a clock for each
/// instruction.
std::string setting_text(const OneSettingPoint& point);

/// Returns the wait that all plans of the comparison share.
plan::StragglerWait wait_of(const Planned& planned);

/// Returns one entry for each kind. If the profile has no rows for power limits, the model of
/// `gpu` supplies them; none if that is null.
Result<std::vector<NamedRivals>> rivals_of(const Frontier& frontier, const Planned& planned,
                                           const GpuModel* gpu);

// Of `planned.rivals`:
/// Returns a line for each kind.
std::string rivals_text(const Frontier& frontier, const Planned& planned);
/// Returns an object for each kind with `no_slower`, `next_cheaper` and `as_cheap`, null if
/// missing.
Json rivals_json(const Frontier& frontier, const Planned& planned);
/// Returns the rivals for the page, except those that its chart cannot distinguish from all-max.
std::vector<ReportComparison> rival_comparisons(const Planned& planned);

}  // namespace harpe::command
