#pragma once
/// \file
/// Files with the latency of settings, by requested clock.
///
///   const harpe::Result<harpe::LatencyByClock> latency = parse_latency_table(text, "late.csv");
///   if (latency.ok()) plan_with({.switch_latency = *latency});

#include <filesystem>
#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/plan/instruction/setting.h"

namespace harpe::plan {

/// Parses a CSV with the columns `frequency` (MHz), `latency` (s) and, optionally, `least_latency`
/// (s) in any order, one row per clock; a cell of the last column may be empty. Reports all
/// diagnostics together, with line and column: a missing, unknown or repeated column, a value that
/// is not a number or out of range, a least latency that is 0 or above the latency, a repeated
/// clock, a table without rows.
Result<LatencyByClock> parse_latency_table(std::string_view text, const std::string& file);

/// Returns a CSV with the same columns; `least_latency` only if at least one is known.
/// \param latency  a table, not one time for all clocks
std::string latency_table_csv(const LatencyByClock& latency);

/// Returns the path of a profile's latency table: `gpt3.latency.csv` beside `gpt3.csv`. Does not
/// check that the file exists.
std::filesystem::path latency_table_of(const std::filesystem::path& profile);

}  // namespace harpe::plan
