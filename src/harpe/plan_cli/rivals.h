#pragma once
/// \file
/// One clock and one power limit for all GPUs, beside a plan: what `harpe plan` says of them.

#include <string>
#include <vector>

#include "harpe/baseline/one_setting.h"
#include "harpe/command/json_output.h"
#include "harpe/plan_cli/planning.h"
#include "harpe/report/report.h"

namespace harpe {

struct NamedRivals {
  std::string name;  ///< "one clock"
  std::vector<OneSettingPoint> curve;
  Rivals rivals;
};

/// Empty curves are left out: a profile without rows for power limits has no rival of that kind.
std::vector<NamedRivals> rivals_of(const Frontier& frontier, const Planned& planned);

/// A line for each kind of rival, or nothing.
std::string rivals_text(const std::vector<NamedRivals>& rivals, const Frontier& frontier,
                        const Planned& planned);
/// By name: `no_slower`, `next_cheaper`, `as_cheap`; null if there is none.
Json rivals_json(const std::vector<NamedRivals>& rivals, const Frontier& frontier,
                 const Planned& planned);
std::vector<ReportComparison> rival_comparisons(const std::vector<NamedRivals>& rivals);

}  // namespace harpe
