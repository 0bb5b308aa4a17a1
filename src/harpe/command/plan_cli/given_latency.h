#pragma once
/// \file
/// The latency of clock changes: `--switch-latency`, a time or a table by clock, or the table next
/// to the profile.

#include <filesystem>
#include <string>

#include "harpe/base/result.h"
#include "harpe/plan/instruction/setting.h"

namespace harpe::command {

/// Returns true if a value names a table: an existing file, a path, or a name that ends in `.csv`.
bool is_latency_table(const std::string& value);

/// The latency for a command's plans or predictions.
struct GivenLatency {
  LatencyByClock by_clock = {};
  /// File it was read from; empty if it was not read from a file.
  std::filesystem::path table = {};
  /// True if the table was found next to the profile, not requested.
  bool is_found = false;
};

/// Reads a table, plain or compressed by gzip.
Result<LatencyByClock> given_latency_table(const std::filesystem::path& path);

/// Returns the time, or the latencies of the table (profile/latency_table.h). Diagnostics of a
/// table have a position.
Result<GivenLatency> given_latency(const std::string& value);

/// Returns the latencies of the table next to the profile (`latency_table_of`, or that with ".gz");
/// no latency if there is none. Errors of the table name the option that ignores it.
Result<GivenLatency> found_latency(const std::filesystem::path& profile);

/// Returns "10 ms", "10 to 30 ms", "0.5 to 2 s".
std::string range_text(const LatencyByClock& latency);

/// Returns "late as in gpt3.latency.csv (10 to 30 ms)", "10 ms late", or "immediate".
std::string lateness_text(const GivenLatency& given);

/// Returns a sentence on the latency of the clocks and, for a table that was found, the option that
/// ignores it. Empty if there is no latency.
std::string latency_sentence(const GivenLatency& given);

}  // namespace harpe::command
