#pragma once
/// \file
/// A series of carbon intensities: values on a regular grid in UTC, of one kind, one zone and one
/// unit.
///
///   const auto series = harpe::carbon::parse_intensity_csv(text, "ES_2022_hourly.csv");
///   if (series.ok()) std::printf("%.0f g/kWh\n", series->values[0]);

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/intensity.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {

/// A series: `values[i]` is the mean over [start + i * step, start + (i + 1) * step), in
/// gCO2eq/kWh.
///
/// Invariants of series returned by readers and functions: step is positive and divides a day;
/// `values` and `estimated` have the same length, at least 1; a value is finite, or NaN if unknown
/// (a gap); only marginal values are negative. Prices (IntensityKind::kPrice) are in money per MWh
/// and may be negative.
struct IntensitySeries {
  UtcTime start{};
  WholeSeconds step{3600};
  std::vector<double> values = {};
  std::vector<std::uint8_t> estimated = {};  ///< 1 if the provider estimated it
  IntensityKind kind = IntensityKind::kUnstated;
  std::string zone = {};  ///< such as "DE"; empty if unknown
  /// Shown in reports: "caiso.com, by Electricity Maps".
  std::string source = {};

  std::size_t size() const { return values.size(); }
  bool known(std::size_t i) const { return !std::isnan(values[i]); }
  UtcTime start_of(std::size_t i) const { return start + static_cast<std::int64_t>(i) * step; }
  UtcTime end() const { return start_of(size()); }
  std::size_t slots_per_day() const { return static_cast<std::size_t>(whole_days(1) / step); }
  std::size_t gaps() const;
  std::size_t estimates() const;
};

/// Limit on the length: a longer series probably has a wrong date. 5-minute values of 40 years.
inline constexpr std::size_t kLongestSeries = 4'250'000;

/// An unknown value.
inline constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

/// Returns `earlier` followed by `later`, on the grid of `later`, with a gap if they are apart.
/// Fails if the kinds, zones (if both are known), steps or grids differ, if they overlap, or above
/// kLongestSeries: kinds of intensity never mix.
Result<IntensitySeries> joined(const IntensitySeries& earlier, const IntensitySeries& later);

/// Returns means over intervals of `step`, a multiple of the series' own, from its start. An
/// interval with over half of its values unknown is a gap; one with an estimate is an estimate. An
/// incomplete last interval is omitted. Fails if nothing is left, or if `step` does not divide a
/// day.
Result<IntensitySeries> coarsened(const IntensitySeries& series, WholeSeconds step);

/// Fills each gap with the value a day before; within the first day, with the last value before it,
/// or else the first known value. Does nothing if no value is known.
IntensitySeries with_gaps_filled(IntensitySeries series);

}  // namespace harpe::carbon
