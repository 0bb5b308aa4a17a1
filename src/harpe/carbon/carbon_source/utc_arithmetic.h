#pragma once
/// \file
/// What more is counted with times here than in `carbon` (utc_time.h): intervals, calendar months,
/// the time of the machine.

#include <chrono>
#include <functional>

#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {

constexpr WholeSeconds operator+(WholeSeconds a, WholeSeconds b) {
  return WholeSeconds(a.count() + b.count());
}
constexpr WholeSeconds operator-(WholeSeconds a, WholeSeconds b) {
  return WholeSeconds(a.count() - b.count());
}
constexpr UtcTime operator-(UtcTime a, WholeSeconds b) {
  return {a.since_1970 - b.count()};
}

/// The time of day in UTC, which may be wrong.
using UtcNow = std::function<UtcTime()>;

/// That of this machine.
UtcNow utc_clock();

/// As the standard library has it.
inline std::chrono::sys_seconds sys_time(UtcTime time) {
  return std::chrono::sys_seconds(std::chrono::seconds(time.since_1970));
}

/// The start of the interval of `step` that holds `time`, on the grid of whole days.
UtcTime interval_of(UtcTime time, WholeSeconds step);

/// The first second of the month that holds `time`, and of the month after.
UtcTime month_of(UtcTime time);
UtcTime next_month(UtcTime time);

}  // namespace harpe::carbon
