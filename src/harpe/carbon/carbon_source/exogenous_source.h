#pragma once
/// \file
/// What else an own forecast is made of while time goes on: a table that the user keeps up to date,
/// or what ENTSO-E publishes of load, wind and sun a day ahead.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harpe/carbon/carbon/exogenous.h"
#include "harpe/carbon/carbon/intensity_series.h"
#include "harpe/carbon/carbon_source/provider_sources.h"

namespace harpe::carbon {

/// On the grid of `past` and `ahead` intervals after it, with `known_ahead` as far as they are
/// known now. Nothing where there is nothing of use, with the reason in `notes`.
using ExogenousSource = std::function<std::optional<ExogenousSeries>(
    const IntensitySeries& past, std::size_t ahead, std::vector<std::string>& notes)>;

/// A CSV file with a column of times, read anew each time. \param known_ahead  how long before
/// their time its values were known: 0 for measured ones
ExogenousSource exogenous_file(std::filesystem::path path, WholeSeconds known_ahead);

/// Day-ahead forecasts of load, wind and sun. A month that is over is asked for once, the present
/// one at most once an hour; both are kept below `folder`, one table a month (empty: in memory
/// alone). What a forecast rests on is as it was published the day before, so that the past of it
/// tells honestly how much it is worth. \param source  must outlive this
ExogenousSource exogenous_day_ahead(EntsoeSource& source, std::filesystem::path folder, UtcNow now);

}  // namespace harpe::carbon
