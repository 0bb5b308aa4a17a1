#pragma once
/// \file
/// Table of Harpe's forecasts before each interval of a recorded series, shared by many jobs that
/// start at different times.

#include <cstddef>
#include <functional>
#include <vector>

#include "harpe/carbon/carbon/exogenous.h"
#include "harpe/carbon/carbon/intensity_series.h"

namespace harpe::lab {

/// Range and changes of the intensities in the four weeks before an interval; 0 without any value.
struct RecentIntensity {
  double lowest = 0, highest = 0;  ///< g/kWh
  double last = 0;                 ///< newest known value
  /// Largest from one interval to the next, relative to the former.
  double change = 0;
};

class ForecastTable {
 public:
  /// Computes all forecasts. Fails if the series do not fit together (joined()). O(size x horizon)
  /// memory.
  /// \param series     a forecast is made before each of its intervals, from the values before it
  /// \param earlier    learned from first; null: nothing is
  /// \param progress   called regularly with the completed share; may be empty
  /// \param exogenous  on the grid of both series joined; may be null; must outlive only this call
  static Result<ForecastTable> make(const carbon::IntensitySeries& series,
                                    const carbon::IntensitySeries* earlier,
                                    const std::function<void(double)>& progress = {},
                                    const carbon::ExogenousSeries* exogenous = nullptr);

  /// Returns the forecast of interval `target` made before interval `issue` began, g/kWh. Beyond
  /// the four days of the forecast it is the mean at that time of day over the four weeks before.
  /// Before the first forecast it is the first value of the series, because nothing else is known.
  /// \param target  from `issue` on
  double at(std::size_t issue, std::size_t target) const;
  /// Returns the range known before interval `issue` began.
  const RecentIntensity& recent(std::size_t issue) const { return recent_[issue]; }
  /// Returns possible courses of the `count` intervals from `issue` on: the expected values, with
  /// the errors of one forecast each from the year before, made at the same time of day and for
  /// intervals that have all ended. Errors keep their order: an hour that is dirtier than expected
  /// is followed by other such hours. At most 200 courses, spread over that year; none while
  /// forecasts are new.
  std::vector<std::vector<double>> outlooks(std::size_t issue, std::size_t count) const;

  /// Scales the errors of all later forecasts: at 0 they are the actual values. No such forecast
  /// exists; it shows the value of a better forecast, such as one that uses the weather.
  void set_error_share(double share) { error_share_ = share; }

 private:
  double said(std::size_t issue, std::size_t ahead) const;

  std::size_t slots_per_day_ = 24, horizon_ = 96;
  double first_value_ = 0, error_share_ = 1;
  std::size_t first_ = 0;        ///< intervals of the earlier series
  std::vector<double> values_;   ///< of both series, with gaps filled
  std::vector<float> expected_;  ///< `horizon_` values for each interval; NaN: no forecast
  std::vector<float> usual_;     ///< one day for each interval: means over the four weeks before
  std::vector<RecentIntensity> recent_;
};

}  // namespace harpe::lab
