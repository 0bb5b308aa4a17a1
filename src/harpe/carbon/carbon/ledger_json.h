#pragma once
/// \file
/// Energy ledgers as a document for accounts ("harpe.energy/1"): runs of commands that `harpe run`
/// has measured, and starts of training of a server's jobs.
///
///     {"format": "harpe.energy/1",
///      "runs": [{"id": "4f0c…", "job": "gpt3", "run": "2026-11-25 03:10", "start": 1,
///                "user": "alice", "devices": 64, "meters": ["…"], "simulated": false,
///                "tokens_per_iteration": 4194304,
///                "intervals": {"step_s": 900, "columns": ["start", "energy_j", …],
///                              "rows": [[1795575600, 21534.1, …], …]}}]}
///
/// `start` of a row is in seconds since 1970. A reader ignores unknown columns; missing columns are
/// 0.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/energy_ledger.h"

namespace harpe::carbon {

/// One command, or one start of training of a job.
struct LedgerRun {
  std::string id = {};              ///< unique: a run that is given twice counts once
  std::string job = {};             ///< name of the job, or the command
  std::string run = {};             ///< name of this start in training; may be empty
  std::int64_t start = 0;           ///< number of the start of training, from 1; 0 for a command
  std::string user = {};            ///< name of the token that registered it; empty if unknown
  std::int64_t devices = 0;         ///< number of held devices; 0 if unknown
  double tokens_per_iteration = 0;  ///< 0 if unknown
  bool simulated = false;           ///< true if no real device was used
  std::vector<std::string> device_ids = {};  ///< UUIDs of the known devices
  std::vector<std::string> meters = {};      ///< methods of measuring energy, for display
  std::vector<std::string> notes = {};       ///< energy that was not measured, for display
  EnergyLedger ledger = EnergyLedger();
};

// Limits of a document; larger documents are refused.
inline constexpr std::size_t kMostLedgerRuns = 100'000;
inline constexpr std::size_t kMostLedgerTexts = 10'000;

inline constexpr double kMostTokensPerIteration = 1e12;

inline constexpr std::string_view kLedgerFormat = "harpe.energy/1";

/// Returns the document on one line. Numbers are rounded to millionths of J and s.
std::string ledger_json(const std::vector<LedgerRun>& runs);
/// Returns the value of "intervals" alone.
std::string intervals_json(const EnergyLedger& ledger);

/// Reads a document, or the output of `harpe run --out` as one run. Fails with a position on any
/// error, on reports without intervals, and on documents of a later version (with a message to that
/// effect). Unknown members are ignored.
Result<std::vector<LedgerRun>> parse_ledger(std::string_view text, const std::string& file);

}  // namespace harpe::carbon
