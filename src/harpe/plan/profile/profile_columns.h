#pragma once
/// \file
/// The header of a profile file: which cell of a row holds which column. Used inside the room.

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "harpe/base/csv.h"
#include "harpe/base/result.h"

namespace harpe::plan {

enum ProfileColumn : std::size_t {
  kStage,
  kInstruction,
  kFrequency,
  kTime,
  kEnergy,
  kChunk,
  kRank,
  kDpRank,
  kPpRank,
  kTpRank,
  kMemoryFrequency,
  kPowerLimit,
  kLabel,
};
inline constexpr std::size_t kRequiredProfileColumns = 5;
inline constexpr std::array<std::string_view, 13> kProfileColumnNames = {
    "stage", "instruction", "frequency", "time",    "energy",           "chunk",
    "rank",  "dp_rank",     "pp_rank",   "tp_rank", "memory_frequency", "power_limit",
    "label"};
/// Another name of the column `label`, as Kareus writes it.
inline constexpr std::string_view kLabelAlias = "configuration";

class ProfileColumns {
 public:
  /// Diagnostics: a required column missing, a column twice, an optional column misspelt.
  ProfileColumns(const CsvRow& header, Diagnostics& diagnostics);

  bool has(ProfileColumn column) const { return where_[column] != kAbsent; }
  /// \pre `has(column)`, and `row` has as many cells as the header.
  const CsvCell& cell(const CsvRow& row, ProfileColumn column) const {
    return row.cells[where_[column]];
  }

 private:
  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);

  void report_missing(const CsvRow& header, const std::vector<CsvCell>& unknown,
                      Diagnostics& diagnostics) const;
  void report_misspelt(const CsvRow& header, const std::vector<CsvCell>& unknown,
                       Diagnostics& diagnostics) const;

  std::array<std::size_t, kProfileColumnNames.size()> where_;
};

}  // namespace harpe::plan
