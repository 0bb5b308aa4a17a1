#pragma once
/// \file
/// The same hour of earlier days: the plainest forecast, and what better ones start from.

#include <cstddef>

#include "harpe/carbon/carbon/forecaster.h"

namespace harpe::carbon {

/// Where, `ahead` steps after `newest`, the same hour of the newest day lies of which it is known:
/// a day before the target for up to a day ahead, else as many whole days as it takes to be at or
/// before `newest`. The caller has seen to it that newest + 1 >= slots_per_day.
constexpr std::size_t same_hour_before(std::size_t newest, std::size_t ahead,
                                       std::size_t slots_per_day) {
  const std::size_t days = (ahead + slots_per_day - 1) / slots_per_day;
  return newest + ahead - days * slots_per_day;
}

/// Days of history that weekly_profile() reads.
inline constexpr std::size_t kProfileDays = 7;

/// Half the same hour's newest value, half its mean over the six days before that. Whatever an
/// hour has of its own beyond one day's weather is in the second half.
inline double weekly_profile(const LogHistory& history, std::size_t newest, std::size_t ahead) {
  const std::size_t day = history.slots_per_day();
  const std::size_t last = same_hour_before(newest, ahead, day);
  double sum = 0;
  for (std::size_t k = 1; k < kProfileDays; ++k) sum += history[last - k * day];
  return 0.5 * history[last] + 0.5 * sum / static_cast<double>(kProfileDays - 1);
}

}  // namespace harpe::carbon
