#pragma once
/// \file
/// Who used what, as a document that accounts are made from ("harpe.energy/1"): commands that
/// `harpe run` has measured, and starts of training of a server's jobs.
///
///     {"format": "harpe.energy/1",
///      "runs": [{"id": "4f0c…", "job": "gpt3", "run": "2026-11-25 03:10", "start": 1,
///                "user": "alice", "devices": 64, "meters": ["…"], "simulated": false,
///                "tokens_per_iteration": 4194304,
///                "intervals": {"step_s": 900, "columns": ["start", "energy_j", …],
///                              "rows": [[1795575600, 21534.1, …], …]}}]}
///
/// `start` of a row is in seconds since 1970. A reader takes the columns that it knows; those that
/// are not there are 0.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/energy_ledger.h"

namespace harpe::carbon {

/// One command, or one start of training of a job.
struct LedgerRun {
  std::string id = {};              ///< no other has it: the same run, given twice, counts once
  std::string job = {};             ///< name of the job, or the command
  std::string run = {};             ///< what training calls this start of it; may be empty
  std::int64_t start = 0;           ///< of the job's training, counted from 1; 0: it is a command
  std::string user = {};            ///< name of the token that registered it; empty: not said
  std::int64_t devices = 0;         ///< that were held; 0: not known
  double tokens_per_iteration = 0;  ///< of its training; 0: not known
  bool simulated = false;           ///< of no real device
  std::vector<std::string> device_ids = {};  ///< UUIDs, where they are known
  std::vector<std::string> meters = {};      ///< how energy was measured, for people
  std::vector<std::string> notes = {};       ///< what was not measured, for people
  EnergyLedger ledger = EnergyLedger();
};

// What a document has at most; more is refused.
inline constexpr std::size_t kMostLedgerRuns = 100'000;
inline constexpr std::size_t kMostLedgerTexts = 10'000;

inline constexpr double kMostTokensPerIteration = 1e12;

inline constexpr std::string_view kLedgerFormat = "harpe.energy/1";

/// On one line. Numbers are rounded to millionths of J and s.
std::string ledger_json(const std::vector<LedgerRun>& runs);
/// The value of "intervals" alone.
std::string intervals_json(const EnergyLedger& ledger);

/// Reads a document, or what `harpe run --out` wrote: then one run. Fails with a position on
/// anything that is not as it should be, on reports without intervals, and on
/// documents of a later version, with a message that says so. Members that are not known are left
/// out.
Result<std::vector<LedgerRun>> parse_ledger(std::string_view text, const std::string& file);

}  // namespace harpe::carbon
