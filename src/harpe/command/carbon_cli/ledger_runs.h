#pragma once
/// \file
/// Runs from several files and servers, each counted once.

#include <string>
#include <vector>

#include "harpe/carbon/carbon/ledger_json.h"

namespace harpe::command {

/// A run, and its source.
struct ReadRun {
  carbon::LedgerRun run;
  std::string from;  ///< path of a file, or a job of a server
};

struct CountedRuns {
  std::vector<carbon::LedgerRun> runs = {};  ///< in the order in which they were read
  std::vector<std::string> notes = {};
};

/// Merges the runs. A run that was read twice counts once; if its copies differ, as an earlier and
/// a later copy of a job's energy do, the copy with more energy counts in each interval. Devices
/// that two runs measured at the same time are named, because their energy is in both. Adds a note
/// for each of these. O(intervals + devices log devices).
CountedRuns count_once(std::vector<ReadRun> read);

}  // namespace harpe::command
