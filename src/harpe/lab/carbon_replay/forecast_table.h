#pragma once
/// \file
/// What Harpe's forecast would have said before each interval of a recorded series, so that many
/// jobs that start at different times share it.

#include <cstddef>
#include <functional>
#include <vector>

#include "harpe/carbon/carbon/exogenous.h"
#include "harpe/carbon/carbon/intensity_series.h"

namespace harpe::lab {

/// What the intensities of the four weeks before an interval were like; all 0 before there is any.
struct RecentIntensity {
  double lowest = 0, highest = 0;  ///< g/kWh
  double last = 0;                 ///< the newest known
  double change = 0;               ///< the largest from one interval to the next, of the former
};

class ForecastTable {
 public:
  /// \param series     forecast before each of its intervals, from what came before
  /// \param earlier    learned from first; null: nothing is
  /// \param progress   told the fraction done, now and then; may be empty
  /// \param exogenous  on the grid of both series joined; null: none; must outlive the call alone
  /// Fails where the series do not fit together (joined()). O(size x horizon) memory.
  static Result<ForecastTable> make(const carbon::IntensitySeries& series,
                                    const carbon::IntensitySeries* earlier,
                                    const std::function<void(double)>& progress = {},
                                    const carbon::ExogenousSeries* exogenous = nullptr);

  /// Of interval `target`, as it was expected before interval `issue` began, g/kWh. Beyond the
  /// forecast's four days the mean at that time of the day over the four weeks before. Before there
  /// is any forecast the series' first value, which nothing else is known of.
  /// \param target  from `issue` on
  double at(std::size_t issue, std::size_t target) const;
  /// As known before interval `issue` began.
  const RecentIntensity& recent(std::size_t issue) const { return recent_[issue]; }
  /// How the `count` intervals from `issue` on may come: what is expected of them, each time with
  /// the errors of one forecast of the year before at the same time of the day, whose intervals had
  /// all ended. Errors keep their order: an hour that comes out dirtier than expected is followed
  /// by others. At most 200, spread over that year; none while forecasts are new.
  std::vector<std::vector<double>> outlooks(std::size_t issue, std::size_t count) const;

  /// From now on forecasts err by so much of what they do: 0 tells what came. Nobody has such a
  /// forecast; it shows what a better one, such as one that knows the weather, would be worth.
  void set_error_share(double share) { error_share_ = share; }

 private:
  double said(std::size_t issue, std::size_t ahead) const;

  std::size_t slots_per_day_ = 24, horizon_ = 96;
  double first_value_ = 0, error_share_ = 1;
  std::size_t first_ = 0;        ///< intervals of the earlier series
  std::vector<double> values_;   ///< of both; gaps filled
  std::vector<float> expected_;  ///< `horizon_` for each of those; NaN: none
  std::vector<float> usual_;     ///< a day for each: means at that time of the four weeks before
  std::vector<RecentIntensity> recent_;
};

}  // namespace harpe::lab
