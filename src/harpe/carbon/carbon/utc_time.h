#pragma once
/// \file
/// Points in time as written in files. All times in `carbon` are UTC: local time has one hour twice
/// in autumn and lacks one in spring. Nothing here reads a clock.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace harpe::carbon {

/// Length of an interval in whole seconds, for grids.
class WholeSeconds {
 public:
  constexpr explicit WholeSeconds(std::int64_t seconds = 0) : seconds_(seconds) {}
  constexpr std::int64_t count() const { return seconds_; }

  friend constexpr auto operator<=>(WholeSeconds, WholeSeconds) = default;
  friend constexpr WholeSeconds operator*(std::int64_t n, WholeSeconds a) {
    return WholeSeconds(n * a.seconds_);
  }
  friend constexpr std::int64_t operator/(WholeSeconds a, WholeSeconds b) {
    return a.seconds_ / b.seconds_;
  }
  friend constexpr WholeSeconds operator%(WholeSeconds a, WholeSeconds b) {
    return WholeSeconds(a.seconds_ % b.seconds_);
  }

 private:
  std::int64_t seconds_;
};

constexpr WholeSeconds whole_minutes(std::int64_t n) {
  return WholeSeconds(60 * n);
}
constexpr WholeSeconds whole_hours(std::int64_t n) {
  return WholeSeconds(3600 * n);
}
constexpr WholeSeconds whole_days(std::int64_t n) {
  return WholeSeconds(86'400 * n);
}

/// A point in time, in seconds since 1970 without leap seconds.
struct UtcTime {
  std::int64_t since_1970 = 0;

  friend constexpr auto operator<=>(UtcTime, UtcTime) = default;
  friend constexpr WholeSeconds operator-(UtcTime a, UtcTime b) {
    return WholeSeconds(a.since_1970 - b.since_1970);
  }
  friend constexpr UtcTime operator+(UtcTime a, WholeSeconds b) {
    return {a.since_1970 + b.count()};
  }
  constexpr UtcTime& operator+=(WholeSeconds b) { return *this = *this + b; }
};

/// Parses "2022-10-20T06:20:00+00:00", "2021-01-01 00:00:00", "2018-01-20T12:00Z" or "2021-01-01",
/// also with zero fractions of a second. A time without an offset is UTC. Accepts years 1970 to
/// 2199; returns nullopt for anything else, such as 30 February or 24:00.
std::optional<UtcTime> parse_utc(std::string_view text);

/// Returns a text such as "2022-10-20T06:20:00Z".
std::string utc_text(UtcTime time);

/// Returns the month of the time, such as "2022-10".
std::string month_text(UtcTime time);

/// Returns the length of an interval, such as "30 min".
std::string minutes_text(WholeSeconds step);

}  // namespace harpe::carbon
