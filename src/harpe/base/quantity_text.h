#pragma once
/// \file
/// Quantities as users write them ("250ms", "83.64", "5%", "1.2x") and read them.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe {

/// Seconds; accepts the suffixes ns, us, ms, s, min, h, d. Not negative.
Result<Seconds> parse_seconds(std::string_view text);
/// Seconds separated by commas, at least one.
Result<std::vector<Seconds>> parse_seconds_list(std::string_view text);
/// Watts; accepts the suffixes mW, W, kW, MW. Not negative.
Result<Watts> parse_watts(std::string_view text);
/// One or more of them, separated by commas.
Result<std::vector<Watts>> parse_watts_list(std::string_view text);
/// A percentage, with or without `%`: 5% and 5 are the same. Not negative.
Result<double> parse_percent(std::string_view text);
/// Whether it may be meant as a fraction: a bare number below 1, such as 0.05 for 5 %.
bool may_be_fraction(std::string_view text);
/// A number from 0 to 1.
Result<double> parse_share(std::string_view text);
/// A whole number from `low` to `high`.
Result<int> parse_count(std::string_view text, int low, int high);
/// Returns the function that reads such a number, for an option.
inline auto count_within(int low, int high) {
  return [low, high](std::string_view text) { return parse_count(text, low, high); };
}

/// A time, or a multiple of another time ("1.2x").
struct TimeOrFactor {
  std::optional<Seconds> time;
  std::optional<double> factor;
};
Result<TimeOrFactor> parse_time_or_factor(std::string_view text);

/// `value` with that many digits after the point.
std::string fixed(double value, int decimals);
/// "5.0 %"; never "-0.0 %".
std::string percent_text(double percent, int decimals);
/// "+5.0 %": a fraction by which something is more.
std::string change_text(double fraction);
/// Seconds with as many digits as matter: "16.0312 s", "4.21 ms".
std::string seconds_text(double seconds);
/// "3 pipelines", "1 rank", "2 micro-batches".
std::string counted(std::size_t count, const std::string& noun);
/// "10 min", "2 h 30 min".
std::string duration_text(Seconds duration);

}  // namespace harpe
