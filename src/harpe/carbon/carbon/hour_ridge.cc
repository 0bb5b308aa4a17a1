#include "harpe/carbon/carbon/hour_ridge.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "harpe/carbon/carbon/cholesky.h"

namespace harpe::carbon {
namespace {

constexpr double kHalfLifeDays = 730;       // of m
constexpr double kFullBandwidthDays = 240;  // of history, after which K is narrowest
constexpr double kWidestHours = 24;
constexpr double kLeastWeight = 0.01;   // of K: hours with less are left out
constexpr std::size_t kFewestDays = 7;  // of learned steps before the first fit
constexpr std::size_t kFitShare = 12;   // fits again after a twelfth more history, 1 to 7 days
constexpr int kHuberHours[] = {1, 3, 6, 12, 18, 24};
constexpr double kMostDeviation = 2;  // a forecast is within a factor of 7 of the profile
constexpr double kResidualHalfLifeDays = 14;

class HourRidge final : public Forecaster {
 public:
  HourRidge(const HourRidgeOptions& options, const ForecastGrid& grid,
            const ExogenousSeries* exogenous)
      : options_(options),
        slots_(grid.slots_per_day),
        horizon_(grid.horizon),
        features_(options, grid, exogenous),
        p_(features_.count()),
        x_(p_),
        x_new_(p_),
        ahead_(horizon_),
        models_(slots_),
        step_decay_(std::exp2(-1 / (kHalfLifeDays * static_cast<double>(slots_)))),
        residual_decay_(std::exp2(-1 / (kResidualHalfLifeDays * static_cast<double>(slots_)))) {
    for (Model& model : models_) {
      model.products.assign(p_ * p_, 0);
      model.targets.assign(p_ * horizon_, 0);
    }
    for (const int hours : kHuberHours) {
      const std::size_t ahead = static_cast<std::size_t>(hours) * slots_ / 24;
      if (ahead >= 1 && ahead <= horizon_) huber_at_.push_back(ahead - 1);
    }
    residual_.assign(huber_at_.size(), 0);
  }

  std::string name() const override { return options_.name; }

  void observe(const LogHistory& history) override {
    const std::size_t newest = history.size() - 1;
    if (newest < features_.first_step() + horizon_) return;
    learn(history, newest - horizon_);
    ++learned_;
  }

  bool forecast(const LogHistory& history, std::span<double> ahead) override {
    if (learned_ < kFewestDays * slots_) return false;
    const std::size_t newest = history.size() - 1;
    Model& model = models_[history.slot(newest)];
    const std::size_t every = std::clamp(learned_ / kFitShare, slots_, 7 * slots_);
    if (model.weights.empty() || newest - model.fitted_at >= every) {
      if (fit(history.slot(newest))) model.fitted_at = newest;
    }
    if (model.weights.empty()) return false;
    features_.write(history, newest, x_new_);
    std::ranges::fill(ahead, 0.0);
    add_products(model.weights, x_new_, ahead);
    for (std::size_t k = 0; k < ahead.size(); ++k) {
      ahead[k] =
          profile(history, newest, k + 1) + std::clamp(ahead[k], -kMostDeviation, kMostDeviation);
    }
    return true;
  }

 private:
  struct Model {
    std::vector<double> products;  ///< of features: upper triangle of p x p
    std::vector<double> targets;   ///< features times future deviations, p x horizon
    std::vector<double> weights;   ///< p x horizon; empty before the first fit
    std::size_t fitted_at = 0;
  };

  double profile(const LogHistory& history, std::size_t i, std::size_t ahead) const {
    return options_.weekly_profile ? weekly_profile(history, i, ahead)
                                   : history[same_hour_before(i, ahead, slots_)];
  }

  /// Adds x . (weights of k) to each ahead[k].
  void add_products(const std::vector<double>& weights, const std::vector<double>& x,
                    std::span<double> ahead) const {
    for (std::size_t j = 0; j < p_; ++j) {
      const double* row = &weights[j * horizon_];
      for (std::size_t k = 0; k < ahead.size(); ++k) ahead[k] += x[j] * row[k];
    }
  }

  void learn(const LogHistory& history, std::size_t i) {
    features_.write(history, i, x_);
    std::size_t known = 0;
    for (std::size_t k = 0; k < horizon_; ++k) {
      ahead_[k] = history[i + k + 1] - profile(history, i, k + 1);
      known += history.known(i + k + 1) ? 1U : 0U;
    }
    // Future steps weigh more instead of past steps less, so that the sums need no update.
    weight_now_ /= step_decay_;
    if (weight_now_ > 1e100) rescale();
    if (!history.known(i) || 4 * known < 3 * horizon_) return;  // few values were measured
    Model& model = models_[history.slot(i)];
    const double weight = weight_now_ * huber_weight(model);
    for (std::size_t j = 0; j < p_; ++j) {
      const double factor = weight * x_[j];
      double* products = &model.products[j * p_];
      for (std::size_t k = j; k < p_; ++k) products[k] += factor * x_[k];
      double* targets = &model.targets[j * horizon_];
      for (std::size_t k = 0; k < horizon_; ++k) targets[k] += factor * ahead_[k];
    }
  }

  /// Returns 1, or less the more the newest fit missed the deviations in `ahead_`.
  double huber_weight(const Model& model) {
    if (options_.huber <= 0 || model.weights.empty()) return 1;
    double worst = 0;
    for (std::size_t at = 0; at < huber_at_.size(); ++at) {
      double residual = ahead_[huber_at_[at]];
      for (std::size_t j = 0; j < p_; ++j) {
        residual -= x_[j] * model.weights[j * horizon_ + huber_at_[at]];
      }
      residual = std::abs(residual);
      if (residual_weight_ > 0) {
        worst = std::max(worst, residual * residual_weight_ / (residual_[at] + 1e-12));
      }
      residual_[at] = residual_decay_ * residual_[at] + residual;
    }
    residual_weight_ = residual_decay_ * residual_weight_ + 1;
    return worst > options_.huber ? options_.huber / worst : 1;
  }

  void rescale() {
    for (Model& model : models_) {
      for (double& value : model.products) value /= weight_now_;
      for (double& value : model.targets) value /= weight_now_;
    }
    weight_now_ = 1;
  }

  bool fit(std::size_t slot) {
    const double days = static_cast<double>(learned_) / static_cast<double>(slots_);
    const double bandwidth =
        std::min(kWidestHours,
                 options_.bandwidth_hours * std::max(1.0, std::sqrt(kFullBandwidthDays / days)));
    std::vector<double> products(p_ * p_, 0), targets(p_ * horizon_, 0);
    for (std::size_t other = 0; other < slots_; ++other) {
      const std::size_t apart = other > slot ? other - slot : slot - other;
      const double hours =
          24 * static_cast<double>(std::min(apart, slots_ - apart)) / static_cast<double>(slots_);
      const double kernel = std::exp(-0.5 * (hours / bandwidth) * (hours / bandwidth));
      if (kernel < kLeastWeight) continue;
      const double weight = kernel / weight_now_;
      const Model& model = models_[other];
      for (std::size_t j = 0; j < products.size(); ++j) products[j] += weight * model.products[j];
      for (std::size_t j = 0; j < targets.size(); ++j) targets[j] += weight * model.targets[j];
    }
    for (std::size_t j = 0; j < p_; ++j) products[j * p_ + j] += options_.lambda;
    if (!solve_positive_definite(products, p_, targets, horizon_)) return false;
    models_[slot].weights = std::move(targets);
    return true;
  }

  HourRidgeOptions options_;
  std::size_t slots_, horizon_;
  RidgeFeatures features_;
  std::size_t p_;
  std::vector<double> x_, x_new_, ahead_;
  std::vector<Model> models_;
  double step_decay_, residual_decay_;
  double weight_now_ = 1;
  std::size_t learned_ = 0;  ///< in steps
  std::vector<std::size_t> huber_at_;
  std::vector<double> residual_;  ///< decayed sums of absolute residuals
  double residual_weight_ = 0;
};

// Scale of the features other than lags: they are shrunk as much as a lag that swings by 20 %.
constexpr double kTypicalSwing = 0.2;
constexpr int kWeekWaves = 3;           // enough for seven weekdays
constexpr std::size_t kScaleDays = 28;  // that centre and scale exogenous values
constexpr std::size_t kMeasuredHours[] = {0, 1, 2, 3, 6, 12, 23, 47};  // before the present
constexpr std::size_t kAheadHours = 3;  // every hour up to this, then every third

std::size_t steps_of(std::size_t hours, std::size_t slots_per_day) {
  return hours * slots_per_day / 24;
}

void sort_unique(auto& values) {
  std::ranges::sort(values);
  const auto rest = std::ranges::unique(values);
  values.erase(rest.begin(), rest.end());
}

/// Returns the values, with each gap filled by the last known value.
std::vector<double> without_gaps(const std::vector<double>& values) {
  std::vector<double> filled = values;
  double last = 0;
  for (double& value : filled) {
    if (std::isnan(value)) value = last;
    last = value;
  }
  return filled;
}

}  // namespace

HourRidgeOptions narrow_ridge() {
  HourRidgeOptions options{.name = "narrow-ridge", .lag_hours = {}};
  for (int lag = 0; lag < 48; ++lag) options.lag_hours.push_back(lag);
  for (const int lag : {71, 95, 119, 143, 144, 167}) options.lag_hours.push_back(lag);
  return options;
}

HourRidgeOptions wide_ridge() {
  HourRidgeOptions options{
      .name = "wide-ridge", .lag_hours = {}, .weekly_profile = true, .bandwidth_hours = 3};
  for (int lag = 0; lag < 72; ++lag) options.lag_hours.push_back(lag);
  for (const int day : {95, 119, 143, 167}) {
    for (int lag = day - 1; lag <= std::min(day + 2, 167); ++lag) options.lag_hours.push_back(lag);
  }
  return options;
}

std::unique_ptr<Forecaster> make_hour_ridge(const HourRidgeOptions& options,
                                            const ForecastGrid& grid,
                                            const ExogenousSeries* exogenous) {
  return std::make_unique<HourRidge>(options, grid, exogenous);
}

RidgeFeatures::RidgeFeatures(const HourRidgeOptions& options, const ForecastGrid& grid,
                             const ExogenousSeries* exogenous)
    : day_(grid.slots_per_day) {
  for (const int hours : options.lag_hours)
    lags_.push_back(steps_of(static_cast<std::size_t>(hours), day_));
  // If steps are shorter than an hour, every step of the newest three hours is a lag.
  if (day_ > 24) {
    for (std::size_t lag = 0; lag < steps_of(3, day_); ++lag) lags_.push_back(lag);
  }
  sort_unique(lags_);
  first_step_ = std::max(lags_.back(), kProfileDays * day_ - 1);
  if (exogenous != nullptr && !exogenous->columns.empty()) {
    for (const auto& column : exogenous->columns) exogenous_.push_back(without_gaps(column.values));
    for (const std::size_t hours : kMeasuredHours) {
      exogenous_steps_.push_back(-static_cast<std::ptrdiff_t>(steps_of(hours, day_)));
    }
    const std::size_t near = steps_of(kAheadHours, day_);
    for (std::size_t ahead = 1; ahead <= exogenous->known_ahead; ++ahead) {
      const bool whole_hour = ahead * 24 % day_ == 0;
      if (whole_hour && (ahead <= near || ahead % std::max<std::size_t>(1, near) == 0))
        exogenous_steps_.push_back(static_cast<std::ptrdiff_t>(ahead));
    }
    sort_unique(exogenous_steps_);
    first_step_ = std::max(first_step_, kScaleDays * day_);
    scale_exogenous(kScaleDays * day_);
  }
  count_ = lags_.size() + 2 * kWeekWaves + exogenous_.size() * exogenous_steps_.size() + 2;
}

void RidgeFeatures::scale_exogenous(std::size_t steps) {
  for (std::vector<double>& values : exogenous_) {
    const std::size_t count = std::min(steps, values.size());
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < count; ++i) sum += values[i];
    const double mean = count > 0 ? sum / static_cast<double>(count) : 0;
    for (std::size_t i = 0; i < count; ++i) squares += (values[i] - mean) * (values[i] - mean);
    const double deviation = count > 0 ? std::sqrt(squares / static_cast<double>(count)) : 0;
    const double factor = kTypicalSwing / (deviation > 0 ? deviation : 1);
    // A value that is constant in the first weeks has no scale, so its later changes are bounded.
    for (double& value : values) value = std::clamp((value - mean) * factor, -10.0, 10.0);
  }
}

void RidgeFeatures::write(const LogHistory& history, std::size_t i, std::span<double> x) {
  const auto mean_of_day = [&](std::size_t last) {
    double sum = 0;
    for (std::size_t k = 0; k < day_; ++k) sum += history[last - k];
    return sum / static_cast<double>(day_);
  };
  if (!centered_) center_ = mean_of_day(i);
  centered_ = true;
  const double mean = mean_of_day(i);
  std::size_t at = 0;
  for (const std::size_t lag : lags_) x[at++] = history[i - lag] - mean;
  x[at++] = 0.5 * (mean - center_);
  const double week = static_cast<double>(i % (7 * day_)) / static_cast<double>(7 * day_);
  for (int wave = 1; wave <= kWeekWaves; ++wave) {
    const double angle = 2 * std::numbers::pi * wave * week;
    x[at++] = kTypicalSwing * std::sin(angle);
    x[at++] = kTypicalSwing * std::cos(angle);
  }
  for (const std::vector<double>& values : exogenous_) {
    for (const std::ptrdiff_t step : exogenous_steps_) {
      const auto source = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(i) + step);
      x[at++] = source < values.size() ? values[source] : values.back();
    }
  }
  x[at] = kTypicalSwing;
}

}  // namespace harpe::carbon
