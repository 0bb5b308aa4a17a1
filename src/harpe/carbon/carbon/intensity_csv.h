#pragma once
/// \file
/// Reader of carbon intensities from providers' CSV tables.
///
/// Layouts are recognised by their headings, after a byte order mark and with columns in any order:
///
/// - Electricity Maps portal: "Datetime (UTC)", "Carbon intensity gCO2eq/kWh (direct)", "... (LCA)"
///   or "(Life cycle)", "Zone id", "Data estimated". Kind: life cycle, or direct by option.
/// - Chase: location, timestamp, duration (min), value, hist; `hist` is the realised value. Kind
///   unstated.
/// - Let's Wait Awhile (ENTSO-E): "Time", "Carbon Intensity". Kind unstated.
/// - Averages by day type: date, hour, ..., ci. Kind unstated; `hours_are_utc` must be set.
///
/// Any other table is read with the options time column, value column, unit and kind, all of which
/// must be given. Times without an offset are UTC. An empty value and a missing row are gaps.

#include <optional>
#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/intensity_series.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {

struct IntensityCsvOptions {
  std::string time_column = {};   ///< empty to use the layout's
  std::string value_column = {};  ///< empty to use the layout's
  std::optional<double> unit =
      {};  ///< g/kWh for a value of 1; default: the unit in the heading, else 1
  std::optional<IntensityKind> kind = {};
  std::string zone = {};  ///< zone to read from a file of several; else the name of the zone
  std::optional<WholeSeconds> step = {};  ///< default: the most frequent distance between rows
  bool hours_are_utc = false;             ///< for the layout with date and hour
  bool any_value = false;                 ///< also accept values above 3000 g/kWh and below 0
};

/// Returns the g/kWh of 1 "g/kWh", "kg/MWh", "t/GWh", "lb/MWh", "lbs_co2_per_mwh", "kg/kWh",
/// "t/MWh" or "g/MJ", in any case, with or without "CO2" or "CO2eq".
Result<double> parse_intensity_unit(std::string_view text);

/// A unit of a price: "EUR/MWh", "USD/MWh", "GBP/kWh" (a currency of three capitals) or "ct/kWh".
struct PriceUnit {
  std::string money;   ///< "EUR"
  double per_mwh = 1;  ///< price per MWh, in `money`, of a value of 1
};
/// Returns nullopt if the text is not a unit of a price.
std::optional<PriceUnit> parse_price_unit(std::string_view text);

/// Parses "life-cycle", "direct" or "marginal".
Result<IntensityKind> parse_intensity_kind(std::string_view text);

/// Reads the intensities of a table. Fails with the line and column of every error, up to a limit:
/// times that do not ascend or are not on a grid; values that are not numbers, negative (unless
/// marginal) or above 3000 g/kWh; several zones without a choice.
/// \param file  its name, for error messages
Result<IntensitySeries> parse_intensity_csv(std::string_view text, const std::string& file,
                                            const IntensityCsvOptions& options = {});

}  // namespace harpe::carbon
