// The part of the chain that records the accuracy of its forecasts.

#include "harpe/carbon/carbon_source/forecast_record.h"

#include <utility>

#include "harpe/carbon/carbon/forecaster.h"
#include "harpe/carbon/carbon_source/intensity_chain.h"

namespace harpe::carbon {
namespace {

/// Maximum time by which a forecast of an earlier day may precede the time of day of the current
/// one, for example because the server was down.
constexpr WholeSeconds kEarlier = whole_hours(3);
/// Maximum time by which it may be later: providers do not issue forecasts to the second.
constexpr WholeSeconds kLater = whole_minutes(20);

ForecastOrigin origin_of(ForecastStep step) {
  return step == ForecastStep::kOwn ? ForecastOrigin::kOwn : ForecastOrigin::kProvider;
}

/// Returns the measured values on the grid of a forecast, which may be coarser.
IntensitySeries on_grid_of(const IntensitySeries& forecast, const IntensitySeries& measured) {
  if (measured.step == forecast.step) return measured;
  const UtcTime from = interval_of(measured.start + forecast.step - measured.step, forecast.step);
  const auto whole = part_of(measured, from, measured.end());
  auto coarse = whole ? coarsened(*whole, forecast.step) : Result<IntensitySeries>(Error());
  return coarse.ok() ? *std::move(coarse) : IntensitySeries{};
}

}  // namespace

/// Stores Harpe's own forecast, issued at the start of its interval: one per interval.
void IntensityChain::keep_own(const LabelledForecast& made) {
  if (options_.offline) return;
  SourceIdentity identity = source_.identity();
  identity.step = made.expected.step;
  cache_.keep_forecast(identity,
                       {.series = made.expected,
                        .issued_at = interval_of(made.issued_at, identity.step),
                        .fetched_at = made.fetched_at},
                       ForecastOrigin::kOwn);
}

ForecastRecord IntensityChain::record(const LabelledForecast& of) {
  ForecastRecord record;
  if (!carbon_control_allowed(of.ladder)) return record;
  SourceIdentity identity = source_.identity();
  const UtcTime now = now_();
  const WholeSeconds year = whole_days(static_cast<std::int64_t>(kErrorDays));
  // Two years: a year of forecasts before the newest, which may be old itself.
  const auto past = cache_.measured(identity, interval_of(now - 2 * year, whole_hours(1)), now);
  if (!past) return record;
  record.measured = on_grid_of(of.expected, past->series);
  if (record.measured.values.empty()) return record;
  std::vector<UtcTime> times;
  for (std::size_t day = 1; day < 2 * kErrorDays; ++day) {
    times.push_back(of.issued_at + kLater - whole_days(static_cast<std::int64_t>(day)));
  }
  identity.step = of.expected.step;
  for (auto& [position, kept] :
       cache_.forecasts(identity, origin_of(of.ladder), times, kEarlier + kLater)) {
    record.earlier.push_back({.days = position + 1, .said = std::move(kept.series)});
  }
  // Notes on skipped files do not concern the next answer.
  static_cast<void>(cache_.take_notes());
  return record;
}

}  // namespace harpe::carbon
