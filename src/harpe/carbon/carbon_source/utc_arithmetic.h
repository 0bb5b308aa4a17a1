#pragma once
/// \file
/// Calculations with times that the room `carbon` (utc_time.h) does not need: intervals, calendar
/// months, and the machine's time.

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

/// Returns the current time in UTC, which may be wrong.
using UtcNow = std::function<UtcTime()>;

/// Returns the clock of this machine.
UtcNow utc_clock();

/// Converts to the type of the standard library.
inline std::chrono::sys_seconds sys_time(UtcTime time) {
  return std::chrono::sys_seconds(std::chrono::seconds(time.since_1970));
}

/// Returns the start of the interval of `step` that contains `time`, on the grid of whole days.
UtcTime interval_of(UtcTime time, WholeSeconds step);

/// Returns the first second of the month of `time`, and of the next month.
UtcTime month_of(UtcTime time);
UtcTime next_month(UtcTime time);

}  // namespace harpe::carbon
