#pragma once
/// \file
/// What `harpe replay zeus` says of its runs: a table for people, CSV with every seed, JSON, and a
/// page of regret. Pure.

#include <span>
#include <string>

#include "harpe/command/replay_cli/zeus_runs.h"
#include "harpe/report/report.h"

namespace harpe {

/// A table for each run; of several, their means below.
std::string zeus_table(std::span<const ZeusRun> runs);
/// One line a job and seed.
std::string zeus_csv(std::span<const ZeusRun> runs);
/// Of one run: its `gpu`, `eta`, `seeds`, `datasets` and `mean_cost_over_oracle`. Of several:
/// `runs` with one such document each.
std::string zeus_json(std::span<const ZeusRun> runs);
std::string zeus_page(std::span<const ZeusRun> runs, const ZeusArguments& arguments,
                      const PageSource& source);

}  // namespace harpe
