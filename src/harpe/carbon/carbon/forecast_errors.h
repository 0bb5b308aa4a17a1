#pragma once
/// \file
/// How hours to come may turn out: as they are expected, with the errors that an earlier forecast
/// made at the same time of the day.
///
/// Errors keep their order over the hours: an hour that comes out dirtier than expected is followed
/// by others. They are relative (to_log), and so fit a level that is another today.
///
/// Pure.

#include <cstddef>
#include <vector>

namespace harpe::carbon {

/// Earlier forecasts are of the year before, at one time of the day, so many at most.
inline constexpr std::size_t kErrorDays = 365, kMostOutlooks = 200;

/// `expected` with the error of a forecast that said `said` where `came` came, all in g/kWh.
double with_error(double expected, double came, double said);

/// Of `count` that are there, the positions of those to take: kMostOutlooks at most, spread over
/// all.
std::vector<std::size_t> taken_of(std::size_t count);

}  // namespace harpe::carbon
