#pragma once
/// \file
/// Points in time as files write them. Everything in `carbon` is in UTC: local time has an hour
/// twice in autumn and lacks one in spring. No clock: nothing here knows what time it is.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace harpe::carbon {

/// Length of an interval, in whole seconds, as grids need them.
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

/// Seconds since 1970 without leap seconds.
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

/// "2022-10-20T06:20:00+00:00", "2021-01-01 00:00:00", "2018-01-20T12:00Z", "2021-01-01", with
/// fractions of a second of 0. Without an offset it is taken for UTC. Years 1970 to 2199; nullopt
/// for anything else, such as 30 February or 24:00.
std::optional<UtcTime> parse_utc(std::string_view text);

/// "2022-10-20T06:20:00Z".
std::string utc_text(UtcTime time);

/// "2022-10", the month it falls into.
std::string month_text(UtcTime time);

/// "30 min", of an interval.
std::string minutes_text(WholeSeconds step);

}  // namespace harpe::carbon
