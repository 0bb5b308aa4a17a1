#pragma once
/// \file
/// Quantities in the notation of users ("250ms", "83.64", "5%", "1.2x"): parsers and formatters.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe {

/// Parses seconds; accepts the suffixes ns, us, ms, s, min, h, d. Not negative.
Result<Seconds> parse_seconds(std::string_view text);
/// Parses a list of seconds separated by commas, at least one.
Result<std::vector<Seconds>> parse_seconds_list(std::string_view text);
/// Parses watts; accepts the suffixes mW, W, kW, MW. Not negative.
Result<Watts> parse_watts(std::string_view text);
/// Parses a list of watts separated by commas, at least one.
Result<std::vector<Watts>> parse_watts_list(std::string_view text);
/// Parses a percentage, with or without `%`: 5% and 5 are the same. Not negative.
Result<double> parse_percent(std::string_view text);
/// Returns true if the text may be meant as a fraction: a bare number below 1 (0.05 for 5 %).
bool may_be_fraction(std::string_view text);
/// Parses a number from 0 to 1.
Result<double> parse_share(std::string_view text);
/// Parses a whole number from `low` to `high`.
Result<int> parse_count(std::string_view text, int low, int high);
/// Returns a parser of whole numbers from `low` to `high`, for an option.
inline auto count_within(int low, int high) {
  return [low, high](std::string_view text) { return parse_count(text, low, high); };
}

/// A time, or a multiple of another time ("1.2x").
struct TimeOrFactor {
  std::optional<Seconds> time;
  std::optional<double> factor;
};
Result<TimeOrFactor> parse_time_or_factor(std::string_view text);

/// Returns `value` with `decimals` digits after the point.
std::string fixed(double value, int decimals);
/// Returns a percentage such as "5.0 %"; never "-0.0 %".
std::string percent_text(double percent, int decimals);
/// Returns a relative change with its sign: "+5.0 %".
std::string change_text(double fraction);
/// Returns seconds with the significant digits: "16.0312 s", "4.21 ms".
std::string seconds_text(double seconds);
/// Returns a count with its noun: "3 pipelines", "1 rank", "2 micro-batches".
std::string counted(std::size_t count, const std::string& noun);
/// Returns a duration such as "10 min" or "2 h 30 min".
std::string duration_text(Seconds duration);

}  // namespace harpe
