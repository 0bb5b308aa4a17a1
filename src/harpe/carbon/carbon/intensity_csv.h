#pragma once
/// \file
/// Reading carbon intensities from the tables that providers hand out.
///
/// Layouts that are recognised by their headings, after a byte order mark and in any order of
/// columns:
///
/// | layout | columns | kind |
/// | --- | --- | --- |
/// | Electricity Maps portal | "Datetime (UTC)", "Carbon intensity gCO2eq/kWh (direct)", "...
/// (LCA)" or "(Life cycle)", "Zone id", "Data estimated" | life cycle, or direct by option | |
/// Chase | location, timestamp, duration (min), value, hist: the realised value | not stated | |
/// Let's Wait Awhile (ENTSO-E) | "Time", "Carbon Intensity" | not stated | | averages by day type |
/// date, hour, ..., ci | not stated; `hours_are_utc` must be said |
///
/// Any other table is read by the options: time column, value column, unit and kind, all given.
/// Times without an offset are UTC. An empty value is a gap, and so is a row that is not there.

#include <optional>
#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/intensity_series.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {

struct IntensityCsvOptions {
  std::string time_column = {};   ///< empty: by the layout
  std::string value_column = {};  ///< empty: by the layout
  std::optional<double> unit =
      {};  ///< g/kWh for a value of 1; default: the unit in the heading, else 1
  std::optional<IntensityKind> kind = {};
  std::string zone = {};  ///< of a file of several zones, this one alone; else its name
  std::optional<WholeSeconds> step = {};  ///< default: the most frequent distance of rows
  bool hours_are_utc = false;             ///< of the layout with date and hour
  bool any_value = false;                 ///< take values over 3000 g/kWh, and below 0, too
};

/// g/kWh of one "g/kWh", "kg/MWh", "t/GWh", "lb/MWh", "lbs_co2_per_mwh", "kg/kWh", "t/MWh" or
/// "g/MJ", in any case, "CO2" or "CO2eq" in it or not.
Result<double> parse_intensity_unit(std::string_view text);

/// A unit of a price: "EUR/MWh", "USD/MWh", "GBP/kWh" (money by its three capitals) or "ct/kWh".
struct PriceUnit {
  std::string money;   ///< "EUR"
  double per_mwh = 1;  ///< of this money a MWh, of one of the unit
};
/// None where it is not one.
std::optional<PriceUnit> parse_price_unit(std::string_view text);

/// "life-cycle", "direct" or "marginal".
Result<IntensityKind> parse_intensity_kind(std::string_view text);

/// The intensities of a table. Fails with the line and column of everything that is wrong, up to a
/// limit: times that do not ascend or are not on a grid, values that are no numbers, negative
/// (unless marginal) or over 3000 g/kWh, several zones and none chosen.
/// \param file  its name, for messages
Result<IntensitySeries> parse_intensity_csv(std::string_view text, const std::string& file,
                                            const IntensityCsvOptions& options = {});

}  // namespace harpe::carbon
