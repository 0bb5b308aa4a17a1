#include "harpe/lab/carbon_replay/backtest.h"

#include <algorithm>
#include <cmath>

#include "harpe/carbon/carbon/forecaster.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::lab {
namespace {

constexpr double kLeastValue = 1;  // g/kWh: percentages of smaller values mean nothing

double percentage_error(double forecast, double value) {
  return std::abs(forecast - value) / std::max(std::abs(value), kLeastValue);
}

double pinball(double quantile, double level, double value) {
  return value >= quantile ? level * (value - quantile) : (1 - level) * (quantile - value);
}

/// One forecast for one horizon, and the observed value.
struct Judged {
  double value = 0, expected = 0, lower = 0, upper = 0, same_hour = 0, persistence = 0;
};

/// Adds a forecast to the sums; `finish` turns them into means.
void add(ForecastFigures& sums, const Judged& one) {
  ++sums.forecasts;
  sums.percentage_error += percentage_error(one.expected, one.value);
  sums.same_hour_error += percentage_error(one.same_hour, one.value);
  sums.persistence_error += percentage_error(one.persistence, one.value);
  sums.absolute_error += std::abs(one.expected - one.value);
  sums.bias += one.expected - one.value;
  if (std::isnan(one.lower)) return;
  ++sums.intervals;
  sums.coverage += one.value >= one.lower && one.value <= one.upper ? 1 : 0;
  sums.width += one.upper - one.lower;
  sums.pinball += (pinball(one.lower, 0.1, one.value) + pinball(one.expected, 0.5, one.value) +
                   pinball(one.upper, 0.9, one.value)) /
                  3;
}

void finish(ForecastFigures& sums) {
  const auto forecasts = static_cast<double>(std::max<std::size_t>(1, sums.forecasts));
  const auto intervals = static_cast<double>(std::max<std::size_t>(1, sums.intervals));
  for (double* sum : {&sums.percentage_error, &sums.same_hour_error, &sums.persistence_error,
                      &sums.absolute_error, &sums.bias}) {
    *sum /= forecasts;
  }
  for (double* sum : {&sums.coverage, &sums.width, &sums.pinball}) *sum /= intervals;
}

class Backtest {
 public:
  Backtest(const carbon::IntensitySeries& both, std::size_t judged_from,
           const carbon::ExogenousSeries* exogenous, const BacktestOptions& options)
      : both_(both),
        judged_from_(judged_from),
        options_(options),
        slots_(both.slots_per_day()),
        horizons_(options.horizons),
        forecaster_(grid_of(), exogenous),
        members_(forecaster_.combination().members()) {}

  BacktestResult run(const std::function<void(double)>& progress) {
    for (std::size_t i = 0; i + 1 < both_.size(); ++i) {
      forecaster_.observe(both_.values[i]);
      // Counted from the start of the judged series: an earlier series changes no issue time.
      const bool issued = (i + 1 + slots_ * kMostDays - judged_from_) % issue_steps() == 0;
      if (issued && i + 1 >= slots_) judge(i);
      if (progress && i % 256 == 0) {
        progress(static_cast<double>(i) / static_cast<double>(both_.size()));
      }
    }
    finish_all();
    return std::move(result_);
  }

 private:
  static constexpr std::size_t kMostDays = carbon::kLongestSeries;  // keeps the difference above 0

  std::size_t steps(int hours) const { return static_cast<std::size_t>(hours) * slots_ / 24; }
  std::size_t issue_steps() const { return std::max<std::size_t>(1, steps(options_.issue_every)); }
  carbon::ForecastGrid grid_of() {
    for (const int hours : kJudgedHorizons) horizons_.push_back(hours);
    std::erase_if(horizons_, [&](int hours) { return steps(hours) == 0; });
    std::ranges::sort(horizons_);
    const auto rest = std::ranges::unique(horizons_);
    horizons_.erase(rest.begin(), rest.end());
    return {.slots_per_day = slots_, .horizon = steps(horizons_.back())};
  }

  void judge(std::size_t i) {
    const auto& forecast = forecaster_.forecast();
    if (!forecast) return;
    std::string month;
    for (const int hours : horizons_) {
      const std::size_t ahead = steps(hours), target = i + ahead;
      if (target < judged_from_ || target >= both_.size() || !both_.known(target)) continue;
      const std::size_t before = carbon::same_hour_before(i, ahead, slots_);
      if (!both_.known(before) || !both_.known(i)) continue;
      const Judged one{.value = both_.values[target],
                       .expected = forecast->expected[ahead - 1],
                       .lower = forecast->lower[ahead - 1],
                       .upper = forecast->upper[ahead - 1],
                       .same_hour = both_.values[before],
                       .persistence = both_.values[i]};
      add(result_.by_horizon[hours], one);
      judge_members(hours, ahead, one);
      if (std::ranges::find(kJudgedHorizons, hours) == kJudgedHorizons.end()) continue;
      month = carbon::month_text(both_.start_of(target));
      add(result_.by_month[month], one);
      add(by_month_and_horizon_[month][hours], one);
    }
  }

  void judge_members(int hours, std::size_t ahead, const Judged& one) {
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const auto said = forecaster_.combination().member_forecast(m);
      if (said.empty()) continue;
      Judged by_member = one;
      by_member.expected = carbon::from_log(said[ahead - 1]);
      add(members_[m][hours], by_member);
    }
  }

  void finish_all() {
    int judged = 0;
    for (auto& [hours, figures] : result_.by_horizon) {
      finish(figures);
      if (std::ranges::find(kJudgedHorizons, hours) == kJudgedHorizons.end()) continue;
      result_.mean_over_same_hour += figures.over_same_hour();
      ++judged;
    }
    result_.mean_over_same_hour /= std::max(1, judged);
    for (auto& [month, figures] : result_.by_month) finish(figures);
    for (auto& [month, horizons] : by_month_and_horizon_) {
      for (auto& [hours, figures] : horizons) {
        finish(figures);
        result_.coverage_by_month[month][hours] = figures.coverage;
      }
    }
    for (std::size_t m = 0; m < members_.size(); ++m) {
      for (auto& [hours, figures] : members_[m]) {
        finish(figures);
        result_.members[forecaster_.combination().member_name(m)][hours] = figures.over_same_hour();
      }
    }
  }

  const carbon::IntensitySeries& both_;
  std::size_t judged_from_;
  const BacktestOptions& options_;
  std::size_t slots_;
  std::vector<int> horizons_;
  carbon::IntensityForecaster forecaster_;
  std::vector<std::map<int, ForecastFigures>> members_;
  std::map<std::string, std::map<int, ForecastFigures>> by_month_and_horizon_;
  BacktestResult result_;
};

Status check(const carbon::IntensitySeries& series, const BacktestOptions& options) {
  const auto minutes = series.step / carbon::whole_minutes(1);
  if (minutes < 15 || minutes > 360) {
    return Error::invalid("forecasts need intervals of 15 min to 6 h, not " +
                          std::to_string(minutes) + " min");
  }
  if (series.size() < 2 * series.slots_per_day()) {
    return Error::invalid("a backtest needs at least two days of values");
  }
  if (options.horizons.empty() || options.issue_every < 1 || options.issue_every > 24) {
    return Error::invalid("a backtest needs a horizon, and a forecast every 1 to 24 hours");
  }
  for (const int hours : options.horizons) {
    if (hours < 1 || hours > kFarthestHorizon || hours * 60 % minutes != 0) {
      return Error::invalid("a horizon of " + std::to_string(hours) +
                            " h is not possible: expected 1 to 96 h in whole intervals");
    }
  }
  return ok_status();
}

}  // namespace

Result<BacktestResult> backtest(const carbon::IntensitySeries& series,
                                const carbon::IntensitySeries* earlier,
                                const carbon::ExogenousSeries* exogenous,
                                const BacktestOptions& options,
                                const std::function<void(double)>& progress) {
  HARPE_TRY(check(series, options));
  carbon::IntensitySeries both = series;
  if (earlier != nullptr) both = HARPE_TRY(carbon::joined(*earlier, series));
  if (exogenous != nullptr) {
    for (const auto& column : exogenous->columns) {
      if (column.values.size() != both.size()) {
        return Error::invalid("the number of exogenous values " + column.name +
                              " is not the number of intensities");
      }
    }
  }
  BacktestResult result =
      Backtest(both, both.size() - series.size(), exogenous, options).run(progress);
  result.gaps = series.gaps();
  result.estimates = series.estimates();
  return result;
}

}  // namespace harpe::lab
