#include "harpe/carbon/carbon/chase_forecast.h"

#include <cmath>
#include <numbers>

namespace harpe {

Result<ChaseForecast> chase_forecast(const IntensitySeries& series, std::size_t first,
                                     const SupportVectorOptions& options) {
  const std::size_t day = series.slots_per_day();
  if (first < day || first >= series.size()) {
    return Error::invalid("Chase's forecasts begin a day or more into a series, before its end");
  }
  const auto before = [&](std::size_t i) {
    return series.values[i > 0 ? i - 1 : series.size() - 1];
  };
  for (std::size_t i = first - day; i < series.size(); ++i) {
    if (!series.known(i) || std::isnan(before(i))) {
      return Error::invalid("Chase's forecasts need a series without gaps");
    }
  }
  const auto features = [&](std::size_t i) {
    const double angle =
        2 * std::numbers::pi * static_cast<double>(i % day + 1) / static_cast<double>(day);
    return std::vector<double>{std::sin(angle), std::cos(angle), before(i)};
  };
  std::vector<std::vector<double>> points;
  std::vector<double> targets;
  for (std::size_t i = first - day; i < first; ++i) {
    points.push_back(features(i));
    targets.push_back(series.values[i]);
  }
  const auto regression =
      HARPE_TRY(SupportVectorRegression::fit(std::move(points), targets, options));
  ChaseForecast forecast;
  for (std::size_t i = first; i < series.size(); ++i) {
    const double value = series.values[i];
    forecast.expected.push_back(regression(features(i)));
    forecast.percentage_error += std::abs(forecast.expected.back() - value) / value;
    forecast.persistence_error += std::abs(before(i) - value) / value;
  }
  const auto steps = static_cast<double>(forecast.expected.size());
  forecast.percentage_error /= steps;
  forecast.persistence_error /= steps;
  return forecast;
}

}  // namespace harpe
