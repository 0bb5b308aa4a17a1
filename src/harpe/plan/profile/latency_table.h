#pragma once
/// \file
/// Files that say how late a setting comes into force, by the clock that is asked for.
///
///   const harpe::Result<harpe::LatencyByClock> latency = parse_latency_table(text, "late.csv");
///   if (latency.ok()) plan_with({.switch_latency = *latency});

#include <filesystem>
#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/plan/instruction/setting.h"

namespace harpe::plan {

/// CSV with the columns `frequency` (MHz), `latency` (s) and, optional, `least_latency` (s) in any
/// order, a row for each clock; a cell of the last may be empty. Diagnostics carry line and column,
/// all of them at once: columns that are missing, unknown or there twice, what is no number or out
/// of range, a least latency that is 0 or above the latency, a clock that comes twice, a table
/// without rows.
Result<LatencyByClock> parse_latency_table(std::string_view text, const std::string& file);

/// The same columns; that of least latencies if one is known. \param latency  a table, not one time
/// for all
std::string latency_table_csv(const LatencyByClock& latency);

/// Returns where the latency table of a profile lies: `gpt3.latency.csv` beside `gpt3.csv`. Does
/// not look whether it is there.
std::filesystem::path latency_table_of(const std::filesystem::path& profile);

}  // namespace harpe::plan
