#include "harpe/carbon/carbon_source/utc_arithmetic.h"

namespace harpe::carbon {
namespace {

std::chrono::year_month calendar_month(UtcTime time) {
  const std::chrono::year_month_day date(std::chrono::floor<std::chrono::days>(sys_time(time)));
  return date.year() / date.month();
}

UtcTime first_second(std::chrono::year_month month) {
  return {std::chrono::sys_seconds(std::chrono::sys_days(month / 1)).time_since_epoch().count()};
}

}  // namespace

UtcNow utc_clock() {
  return [] {
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    return UtcTime{now.time_since_epoch().count()};
  };
}

UtcTime interval_of(UtcTime time, WholeSeconds step) {
  const std::int64_t length = step.count();
  return {time.since_1970 - (time.since_1970 % length + length) % length};
}

UtcTime month_of(UtcTime time) {
  return first_second(calendar_month(time));
}

UtcTime next_month(UtcTime time) {
  return first_second(calendar_month(time) + std::chrono::months(1));
}

}  // namespace harpe::carbon
