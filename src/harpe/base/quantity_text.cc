#include "harpe/base/quantity_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>

#include "harpe/base/decimal_comma.h"
#include "harpe/base/text.h"

namespace harpe {
namespace {

struct Unit {
  std::string_view suffix;
  double scale;
};

// Longer suffixes come first: "ms" before "s".
constexpr std::array kTimeUnits = {Unit{"min", 60},  Unit{"ns", 1e-9}, Unit{"us", 1e-6},
                                   Unit{"ms", 1e-3}, Unit{"s", 1},     Unit{"h", 3600},
                                   Unit{"d", 86400}};
constexpr std::array kPowerUnits = {Unit{"mW", 1e-3}, Unit{"kW", 1e3}, Unit{"MW", 1e6},
                                    Unit{"W", 1}};
constexpr std::array kPercentUnits = {Unit{"%", 1}};

Result<double> parse_quantity(std::string_view text, std::span<const Unit> units,
                              const std::string& expected) {
  std::string_view number = trim(text);
  double scale = 1;
  for (const Unit& unit : units) {
    if (!number.ends_with(unit.suffix)) continue;
    number.remove_suffix(unit.suffix.size());
    scale = unit.scale;
    break;
  }
  const std::optional<double> value = parse_number(number);
  if (!value || !std::isfinite(*value * scale)) {
    const bool is_share = trim(text).ends_with('%') && units.data() != kPercentUnits.data();
    return Error::invalid("expected " + expected + ", found " + in_quotes(text) +
                          (is_share ? "; a percentage is not accepted" : decimal_comma_hint(text)));
  }
  if (*value < 0) return Error::invalid(in_quotes(text) + " is negative");
  return *value * scale;
}

/// Parses quantities separated by commas.
template <class Quantity>
Result<std::vector<Quantity>> parse_list(std::string_view text,
                                         Result<Quantity> (*parse)(std::string_view)) {
  std::vector<Quantity> list;
  while (true) {
    const std::size_t comma = text.find(',');
    list.push_back(HARPE_TRY(parse(text.substr(0, comma))));
    if (comma == std::string_view::npos) return list;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<Seconds> parse_seconds(std::string_view text) {
  auto value = HARPE_TRY(parse_quantity(text, kTimeUnits, "a time such as 1.5, 250ms, 5min or 8h"));
  return Seconds{value};
}

Result<std::vector<Seconds>> parse_seconds_list(std::string_view text) {
  return parse_list(text, parse_seconds);
}

Result<Watts> parse_watts(std::string_view text) {
  auto value =
      HARPE_TRY(parse_quantity(text, kPowerUnits, "a power in watts such as 300 or 2.4kW"));
  return Watts{value};
}

Result<std::vector<Watts>> parse_watts_list(std::string_view text) {
  return parse_list(text, parse_watts);
}

Result<double> parse_percent(std::string_view text) {
  return parse_quantity(text, kPercentUnits, "a percentage such as 5%");
}

bool may_be_fraction(std::string_view text) {
  const auto value = parse_number(text);
  return value && *value > 0 && *value < 1;
}

Result<double> parse_share(std::string_view text) {
  const auto value = parse_number(text);
  if (value && *value >= 0 && *value <= 1) return *value;
  return Error::invalid("expected a number from 0 to 1, found " + in_quotes(text) +
                        decimal_comma_hint(text));
}

Result<int> parse_count(std::string_view text, int low, int high) {
  const auto value = parse_integer(text);
  if (!value || *value < low || *value > high) {
    return Error::invalid("expected a whole number from " + std::to_string(low) + " to " +
                          std::to_string(high) + ", found " + in_quotes(text));
  }
  return static_cast<int>(*value);
}

Result<TimeOrFactor> parse_time_or_factor(std::string_view text) {
  const std::string_view word = trim(text);
  if (word.ends_with('x')) {
    const auto factor = parse_number(word.substr(0, word.size() - 1));
    if (!factor || *factor <= 0) {
      return Error::invalid("expected a factor such as 1.2x, found " + in_quotes(text) +
                            decimal_comma_hint(text));
    }
    return TimeOrFactor{.time = {}, .factor = factor};
  }
  if (word.ends_with('%')) {
    const auto percent = parse_number(trim(word.substr(0, word.size() - 1)));
    std::string message = "expected a time such as 16.5s, or a factor such as 1.2x, found ";
    message += in_quotes(text);
    if (percent && *percent > 0) {
      message += "; write " + shortest(1 + *percent / 100, 6) + "x for " + shortest(*percent, 4) +
                 " % slower, or the seconds";
    }
    return Error::invalid(message);
  }
  auto time =
      HARPE_TRY(parse_quantity(text, kTimeUnits, "a time such as 16.5s, or a factor such as 1.2x"));
  return TimeOrFactor{.time = Seconds{time}, .factor = {}};
}

std::string fixed(double value, int decimals) {
  std::array<char, 400> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return {text.data(), static_cast<std::size_t>(std::clamp(length, 0, 399))};
}

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fixed(seconds, 4) + " s";
  if (seconds >= 1e-3) return fixed(seconds * 1e3, 3) + " ms";
  return fixed(seconds * 1e6, 3) + " us";
}

std::string percent_text(double percent, int decimals) {
  std::string text = fixed(percent, decimals);
  if (text.find_first_not_of("-0.") == std::string::npos && text.front() == '-') text.erase(0, 1);
  return text + " %";
}

std::string change_text(double fraction) {
  const std::string text = fixed(100 * fraction, 1);
  return (text.starts_with('-') ? "" : "+") + text + " %";
}

std::string counted(std::size_t count, const std::string& noun) {
  const bool hisses = noun.ends_with("ch") || noun.ends_with('s');
  return std::to_string(count) + " " + noun + (count == 1 ? "" : hisses ? "es" : "s");
}

std::string duration_text(Seconds duration) {
  if (duration.value < 1) return shortest(duration.value * 1000, 0) + " ms";
  if (duration.value < 10) return shortest(duration.value, 1) + " s";
  const auto seconds = std::llround(duration.value);
  if (seconds < 120) return std::to_string(seconds) + " s";
  if (seconds < 7200) return std::to_string((seconds + 30) / 60) + " min";
  const auto minutes = (seconds + 30) / 60;
  return std::to_string(minutes / 60) + " h" +
         (minutes % 60 == 0 ? "" : " " + std::to_string(minutes % 60) + " min");
}

}  // namespace harpe
