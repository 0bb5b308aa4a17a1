#include "harpe/carbon/carbon/intensity_forecaster.h"

#include <cmath>

#include "harpe/carbon/carbon/hour_ridge.h"

namespace harpe::carbon {
namespace {

/// Returns the members in the order of trust before any forecast was scored.
std::vector<std::unique_ptr<Forecaster>> all_members(const ForecastGrid& grid,
                                                     const ExogenousSeries* exogenous) {
  std::vector<std::unique_ptr<Forecaster>> members;
  members.push_back(make_same_hour());
  members.push_back(make_persistence());
  members.push_back(make_weekly_profile());
  members.push_back(make_hour_ridge(narrow_ridge(), grid));
  members.push_back(make_hour_ridge(wide_ridge(), grid));
  if (exogenous == nullptr || exogenous->columns.empty()) return members;
  // In addition to the others, so that values without information cost little.
  for (HourRidgeOptions options : {narrow_ridge(), wide_ridge()}) {
    options.name += "-exogenous";
    members.push_back(make_hour_ridge(options, grid, exogenous));
  }
  return members;
}

}  // namespace

IntensityForecaster::IntensityForecaster(const ForecastGrid& grid, const ExogenousSeries* exogenous)
    : grid_(grid),
      history_(grid.slots_per_day),
      combination_(all_members(grid, exogenous), grid),
      intervals_(grid) {}

void IntensityForecaster::observe(double grams_per_kwh) {
  // Gaps before the first value add no information, but keep slots and exogenous values aligned.
  history_.add(grams_per_kwh);
  seen_negative_ = seen_negative_ || grams_per_kwh < 0;
  combination_.observe(history_);
  intervals_.observe(history_);
  if (!forecast_ && std::isnan(grams_per_kwh)) return;
  std::vector<double> ahead(grid_.horizon), lower(grid_.horizon), upper(grid_.horizon);
  if (!combination_.forecast(history_, ahead)) return;
  intervals_.issue(history_, ahead, lower, upper);
  for (std::vector<double>* values : {&ahead, &lower, &upper}) {
    for (double& value : *values) {
      value = from_log(value);
      if (value < 0 && !seen_negative_) value = 0;
    }
  }
  forecast_ = IntensityForecast{std::move(ahead), std::move(lower), std::move(upper)};
}

}  // namespace harpe::carbon
