#pragma once
/// \file
/// Perseus's published tables (SOSP'24), recomputed from the profiles of its public data.
///
///   const auto artifact = harpe::lab::read_sosp24("sosp24");
///   for (const auto& table : harpe::lab::tables_of(*artifact, {})) rows(table.compute());
///
/// Each value is given three times: as published; by Perseus's published algorithm from the profile
/// alone; and by Harpe. Published values follow the evaluation's own rules: the all-max baseline
/// ends when the fastest plan does, and planned times and energies replace actual ones. Harpe's
/// values use the actual times and energies of the clocks that it chose.
///
/// Pure; tables may be computed by several threads at once.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/lab/reproduce/artifact.h"

namespace harpe::lab {

struct ReproducedRow {
  std::string what = {};                ///< "intrinsic_saving_percent"
  std::string workload = {}, gpu = {};  ///< the parts of the file's name
  int gpus = 0;                         ///< of the whole job
  int micro_batches = 0;                ///< of a pipeline
  double straggler = 1;                 ///< slowdown of one pipeline; 1: none
  std::optional<double> published = {};
  std::optional<double> recomputed = {};  ///< planned figures, like the published ones
  /// The same plans with the actual figures of their clocks.
  std::optional<double> by_clocks = {};
  std::optional<double> harpe = {};
};

/// The rows of one table, and notes on the values that could not be recomputed and why.
struct ReproducedRows {
  std::vector<ReproducedRow> rows = {};
  std::vector<std::string> notes = {};
};

struct ReproduceOptions {
  std::optional<Watts> blocking_power = {};  ///< of GPUs without a published one
  std::optional<Seconds> unit = {};          ///< see `PerseusOptions`; default: that of the
                                             ///< published frontier, else by GPU
};

/// One profile with one number of micro-batches.
struct ReproducedTable {
  std::string name = {};  ///< "gpt3-175b on a100-sxm, 96 micro-batches"
  std::function<Result<ReproducedRows>()> compute = {};
};

/// Returns all tables. Fails with `kInvalidInput` if the blocking power of a GPU is not known.
/// \param artifact  must outlive the tables
Result<std::vector<ReproducedTable>> tables_of(const Sosp24Artifact& artifact,
                                               const ReproduceOptions& options);

/// Returns the rows of an emulation: savings of 1,024 to 8,192 GPUs, with and without a straggler
/// (figures 7 and 8, table 6). For the time of a straggler Harpe uses the plan of least energy,
/// waiting included.
Result<ReproducedRows> emulated_rows(const EmulatedWorkload& workload, int micro_batches,
                                     Watts blocking_power, Seconds unit);
/// Returns the rows of measured runs: saving and slowdown of the fastest plan (table 3), and
/// savings of one pipeline that waits for a straggler (table 4).
Result<ReproducedRows> measured_rows(const MeasuredWorkload& workload, std::optional<Seconds> unit);

/// Slowdowns of the straggler in the tables.
inline constexpr double kPublishedStragglers[] = {1.05, 1.1, 1.2, 1.3, 1.4, 1.5};

}  // namespace harpe::lab
