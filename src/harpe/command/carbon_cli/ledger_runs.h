#pragma once
/// \file
/// Runs from several files and servers, each counted once.

#include <string>
#include <vector>

#include "harpe/carbon/carbon/ledger_json.h"

namespace harpe::command {

/// A run, and where it was read.
struct ReadRun {
  carbon::LedgerRun run;
  std::string from;  ///< a file, or a job of a server
};

struct CountedRuns {
  std::vector<carbon::LedgerRun> runs = {};  ///< in the order in which they were read
  std::vector<std::string> notes = {};
};

/// A run that was read twice counts once; where the two differ, as an earlier and a later copy of a
/// job's energy do, of each interval the one with more energy counts. Devices that two runs
/// measured at the same time are named: what they used is in both. Each of these is noted.
/// O(intervals + devices log devices).
CountedRuns count_once(std::vector<ReadRun> read);

}  // namespace harpe::command
