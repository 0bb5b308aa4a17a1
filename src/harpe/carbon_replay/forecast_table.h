#pragma once
/// \file
/// What Harpe's forecast would have said before each interval of a recorded series, so that many
/// jobs that start at different times share it.

#include <cstddef>
#include <functional>
#include <vector>

#include "harpe/carbon/intensity_series.h"

namespace harpe {

/// What the intensities of the four weeks before an interval were like; all 0 before there is any.
struct RecentIntensity {
  double lowest = 0, highest = 0;  ///< g/kWh
  double last = 0;                 ///< the newest known
  double change = 0;               ///< the largest from one interval to the next, of the former
};

class ForecastTable {
 public:
  /// \param series    forecast before each of its intervals, from what came before
  /// \param earlier   learned from first; null: nothing is
  /// \param progress  told the fraction done, now and then; may be empty
  /// Fails where the series do not fit together (joined()). O(size x horizon) memory.
  static Result<ForecastTable> make(const IntensitySeries& series, const IntensitySeries* earlier,
                                    const std::function<void(double)>& progress = {});

  /// Of interval `target`, as it was expected before interval `issue` began, g/kWh. Beyond the
  /// forecast's four days the mean of its last two at the same time of the day. Before there is any
  /// forecast the series' first value, which nothing else is known of.
  /// \param target  from `issue` on
  double at(std::size_t issue, std::size_t target) const;
  /// As known before interval `issue` began.
  const RecentIntensity& recent(std::size_t issue) const { return recent_[issue]; }

 private:
  std::size_t slots_per_day_ = 24, horizon_ = 96;
  double first_ = 0;
  std::vector<float> expected_;  ///< `horizon_` for each issue; NaN: none
  std::vector<RecentIntensity> recent_;
};

}  // namespace harpe
