#pragma once
/// \file
/// The hours that a controlled job has before it, as a forecast tells of them, and whether it may
/// act on them.

#include <optional>
#include <string>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/carbon/carbon_source/forecast_record.h"
#include "harpe/carbon/carbon_source/intensity_chain.h"
#include "harpe/carbon/carbon_source/intensity_source.h"
#include "harpe/carbon/pacing/paced_job.h"

namespace harpe::training {

/// What one source said at one time.
struct IntensityReading {
  carbon::SourceIdentity identity = {};
  std::optional<carbon::LabelledIntensity> current = {};
  std::optional<carbon::LabelledForecast> forecast = {};
  carbon::ForecastRecord record = {};  ///< what such forecasts were worth
  std::string trouble = {};            ///< why something of it is missing, for people
};

/// The intensity of the interval that holds a moment, as decisions made then use it.
struct PresentIntensity {
  double grams_per_kwh = 0;
  bool measured = false;          ///< else it is forecast
  carbon::UtcTime known_since{};  ///< when it was fetched, or the forecast was made
};

/// "measured" or "forecast".
const char* basis_of(const PresentIntensity& present);

/// Why no decision may be made by `reading` at `now`, for people; empty: one may.
std::string why_no_control(const IntensityReading& reading, Seconds now);

/// The intensity by which decisions at `now` go: measured in that very interval, or else the
/// forecast's, and never a value of an earlier interval. nullopt where `why_no_control` has a
/// reason.
std::optional<PresentIntensity> present_intensity(const IntensityReading& reading, Seconds now);

/// Returns the value for display if no decision may use it, with the ladder step that it has at
/// `now`. nullopt if the value is of another time.
std::optional<carbon::LabelledIntensity> aged(
    const std::optional<carbon::LabelledIntensity>& current, carbon::UtcTime now);

/// From now to a deadline, or as far as a job without one looks ahead.
struct IntensityOutlook {
  bool may_control = false;
  std::string why_not = {};  ///< where it may not
  std::vector<carbon::PacingInterval> intervals =
      {};                                    ///< weights in grams a joule; never empty where it may
  carbon::WeightRange next = {}, ever = {};  ///< for the guard, in grams a joule
  /// Of these intervals, with the errors of one earlier forecast each.
  std::vector<carbon::WeightOutlook> outlooks = {};
  PresentIntensity present = {};  ///< of the first interval
  std::string step = {};          ///< of the ladder: "provider"
};

/// A forecast of these ages is not acted upon.
inline constexpr Seconds kOldestForecast{6.0 * 3600};

/// Hours beyond the forecast repeat its last day (of less than a day: its mean). Far ahead,
/// intervals are put together so that there are at most `kMostOutlook` or so.
/// Outlooks come of the earlier forecasts that told of all hours up to `until`, continued in the
/// same way, and of which nearly all that came is known.
/// \param now, until  since 1970
IntensityOutlook outlook_of(const IntensityReading& reading, Seconds now, Seconds until);

inline constexpr std::size_t kMostOutlook = 1000;

}  // namespace harpe::training
