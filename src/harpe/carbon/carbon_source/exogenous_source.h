#pragma once
/// \file
/// Sources of exogenous data for own forecasts: a table that the user keeps up to date, or
/// ENTSO-E's day-ahead forecasts of load, wind and sun.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harpe/carbon/carbon/exogenous.h"
#include "harpe/carbon/carbon/intensity_series.h"
#include "harpe/carbon/carbon_source/provider_sources.h"

namespace harpe::carbon {

/// Returns data on the grid of `past` and of `ahead` later intervals, with `known_ahead` as far as
/// it is known now. Returns nullopt without useful data, with the reason in `notes`.
using ExogenousSource = std::function<std::optional<ExogenousSeries>(
    const IntensitySeries& past, std::size_t ahead, std::vector<std::string>& notes)>;

/// Returns a source for a CSV file with a column of times, which it reads again each time.
/// \param known_ahead  how long before their time values were known: 0 for measured values
ExogenousSource exogenous_file(std::filesystem::path path, WholeSeconds known_ahead);

/// Returns a source of day-ahead forecasts of load, wind and sun. Requests a past month once, and
/// the current month at most once an hour; stores both below `folder`, one table per month (in
/// memory only if `folder` is empty). The data are those published the day before, so that
/// forecasts of past times show their true accuracy. \param source  must outlive this
ExogenousSource exogenous_day_ahead(EntsoeSource& source, std::filesystem::path folder, UtcNow now);

}  // namespace harpe::carbon
