#pragma once
/// \file
/// The coming hours of a controlled job according to a forecast, and the rules for using the
/// forecast for control.

#include <optional>
#include <string>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/carbon/carbon_source/forecast_record.h"
#include "harpe/carbon/carbon_source/intensity_chain.h"
#include "harpe/carbon/carbon_source/intensity_source.h"
#include "harpe/carbon/pacing/paced_job.h"

namespace harpe::training {

/// The values of one source at one time.
struct IntensityReading {
  carbon::SourceIdentity identity = {};
  std::optional<carbon::LabelledIntensity> current = {};
  std::optional<carbon::LabelledForecast> forecast = {};
  carbon::ForecastRecord record = {};  ///< accuracy of earlier forecasts like this one
  std::string trouble = {};            ///< why a value is missing, for display
};

/// The intensity of the interval that contains a moment, as used by decisions at that moment.
struct PresentIntensity {
  double grams_per_kwh = 0;
  bool measured = false;          ///< false if it is forecast
  carbon::UtcTime known_since{};  ///< time of the fetch, or of the forecast
};

/// Returns "measured" or "forecast".
const char* basis_of(const PresentIntensity& present);

/// Returns why no decision may use `reading` at `now`, for display; empty if it may be used.
std::string why_no_control(const IntensityReading& reading, Seconds now);

/// Returns the intensity for decisions at `now`: measured in the current interval, or else
/// forecast, but never the value of an earlier interval. nullopt if `why_no_control` returns a
/// reason.
std::optional<PresentIntensity> present_intensity(const IntensityReading& reading, Seconds now);

/// Returns the value for display if no decision may use it, with the ladder step that it has at
/// `now`. nullopt if the value is of another time.
std::optional<carbon::LabelledIntensity> aged(
    const std::optional<carbon::LabelledIntensity>& current, carbon::UtcTime now);

/// The intensities from now to a deadline, or as far as a job without a deadline looks ahead.
struct IntensityOutlook {
  bool may_control = false;
  std::string why_not = {};  ///< empty if it may control
  std::vector<carbon::PacingInterval> intervals =
      {};                                    ///< weights in g/J; never empty if it may control
  carbon::WeightRange next = {}, ever = {};  ///< for the guard, in grams per joule
  /// For the same intervals, each with the errors of one earlier forecast.
  std::vector<carbon::WeightOutlook> outlooks = {};
  PresentIntensity present = {};  ///< of the first interval
  std::string step = {};          ///< ladder step of the forecast: "provider"
};

/// Older forecasts are not used for control.
inline constexpr Seconds kOldestForecast{6.0 * 3600};

/// Returns the outlook. Hours beyond the forecast repeat its last day (or, if it is shorter than a
/// day, its mean). Distant intervals are merged so that there are about `kMostOutlook` at most. The
/// outlooks use earlier forecasts that cover all hours up to `until`, extended in the same way, and
/// for which nearly all actual values are known.
/// \param now, until  since 1970
IntensityOutlook outlook_of(const IntensityReading& reading, Seconds now, Seconds until);

inline constexpr std::size_t kMostOutlook = 1000;

}  // namespace harpe::training
