#pragma once
/// \file
/// How late clocks come: `--switch-latency`, a time or a table of them by clock, or the table that
/// lies beside the profile.

#include <filesystem>
#include <string>

#include "harpe/base/result.h"
#include "harpe/plan/instruction/setting.h"

namespace harpe::command {

/// Returns true if a value names a table: a file that exists, a path, or a name that ends in
/// `.csv`.
bool is_latency_table(const std::string& value);

/// The latency that a command plans or predicts with.
struct GivenLatency {
  LatencyByClock by_clock = {};
  std::filesystem::path table = {};  ///< that it was read from; empty if it was not
  bool is_found = false;             ///< the table lies beside the profile, and was not asked for
};

/// Returns a table, plain or compressed by gzip.
Result<LatencyByClock> given_latency_table(const std::filesystem::path& path);

/// Returns the time, or what the table says (profile/latency_table.h). Diagnostics of a table have
/// their place.
Result<GivenLatency> given_latency(const std::string& value);

/// Returns what the table beside the profile says (`latency_table_of`, or that with ".gz"), no
/// latency if there is none. Errors of the table name the option that leaves it out.
Result<GivenLatency> found_latency(const std::filesystem::path& profile);

/// Returns "10 ms", "10 to 30 ms", "0.5 to 2 s".
std::string range_text(const LatencyByClock& latency);

/// Returns "late as gpt3.latency.csv says (10 to 30 ms)", "10 ms late", or "at once".
std::string lateness_text(const GivenLatency& given);

/// Returns a sentence on how late the clocks come and, of a table that was found, how to do without
/// it. Empty if there is no latency.
std::string latency_sentence(const GivenLatency& given);

}  // namespace harpe::command
