#pragma once
/// \file
/// Carbon intensity over time: values on a regular grid in UTC, of one kind, one zone, one unit.
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

/// `values[i]` is the mean over [start + i * step, start + (i + 1) * step), in gCO2eq/kWh.
///
/// Invariants of what the readers and functions here return: step is positive and divides a day;
/// `values` and `estimated` have the same length, at least 1; a value is finite, or NaN where it is
/// not known (a gap); only marginal values are negative. Of prices (IntensityKind::kPrice) the unit
/// is one of money per MWh, and values may be negative.
struct IntensitySeries {
  UtcTime start{};
  WholeSeconds step{3600};
  std::vector<double> values = {};
  std::vector<std::uint8_t> estimated = {};  ///< 1: the provider estimated it
  IntensityKind kind = IntensityKind::kUnstated;
  std::string zone = {};    ///< "DE"; empty: not told
  std::string source = {};  ///< for the reader of a report: "caiso.com, by Electricity Maps"

  std::size_t size() const { return values.size(); }
  bool known(std::size_t i) const { return !std::isnan(values[i]); }
  UtcTime start_of(std::size_t i) const { return start + static_cast<std::int64_t>(i) * step; }
  UtcTime end() const { return start_of(size()); }
  std::size_t slots_per_day() const { return static_cast<std::size_t>(whole_days(1) / step); }
  std::size_t gaps() const;
  std::size_t estimates() const;
};

/// Longest series: a longer one is more likely a wrong date. 5-minute values of 40 years.
inline constexpr std::size_t kLongestSeries = 4'250'000;

/// What is not known.
inline constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

/// `earlier` and then `later` on the grid of `later`, with a gap between them where there is one.
/// Fails where kinds, zones (if both tell one), steps or grids differ, where they overlap, and over
/// kLongestSeries: kinds of intensity never mix.
Result<IntensitySeries> joined(const IntensitySeries& earlier, const IntensitySeries& later);

/// Means over intervals of `step`, a multiple of the series' own, from its start; an interval of
/// which over half is not known is a gap; one with an estimate is an estimate. A last interval that
/// is not whole is left out. Fails where nothing is left, and where `step` does not divide a day.
Result<IntensitySeries> coarsened(const IntensitySeries& series, WholeSeconds step);

/// Gaps hold what came a day before, or last, or first: what runs over the series runs through
/// them. Nothing is filled where no value is known.
IntensitySeries with_gaps_filled(IntensitySeries series);

}  // namespace harpe::carbon
