#pragma once
/// \file
/// Points in time as files write them. Everything in `carbon` is in UTC: local time has an hour
/// twice in autumn and lacks one in spring.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace harpe {

/// "2022-10-20T06:20:00+00:00", "2021-01-01 00:00:00", "2018-01-20T12:00Z", "2021-01-01", with
/// fractions of a second of 0. Without an offset it is taken for UTC. Years 1970 to 2199; nullopt
/// for anything else, such as 30 February or 24:00.
std::optional<std::chrono::sys_seconds> parse_utc(std::string_view text);

/// "2022-10-20T06:20:00Z".
std::string utc_text(std::chrono::sys_seconds time);

/// "2022-10", the month it falls into.
std::string month_text(std::chrono::sys_seconds time);

/// "30 min", of an interval.
std::string minutes_text(std::chrono::seconds step);

}  // namespace harpe
