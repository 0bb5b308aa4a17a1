#include "harpe/zeus/power_limit/setting_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "harpe/base/check.h"
#include "harpe/base/statistics.h"

namespace harpe::zeus {
namespace {

// Log time: a softplus.
constexpr double kSlope = 5.5, kKnee = 0.45, kWidth = 0.16;
constexpr double kTimeDeviation = 0.01, kTimeGrowth = 0.3;
// Power: (x^-k + 1)^(-1/k).
constexpr double kSharpness = 4.5;
constexpr double kPowerDeviation = 0.06;
// Power at a clock f: static share + the rest * (f / highest)^exponent. The exponent is between 1,
// with the voltage at its floor, and 3, with a voltage that falls with the clock.
constexpr double kStaticShare = 0.3, kClockExponent = 2.2;

// Noise of a window.
constexpr double kTimeNoise = 0.03, kPowerNoise = 0.01;

/// Prior of a Gaussian process over the settings, with the noise of its observations.
struct Process {
  std::vector<double> mean, deviation;
  double length = 0, noise = 0;

  double covariance(std::span<const double> x, std::size_t i, std::size_t j) const {
    return deviation[i] * deviation[j] * std::exp(-square((x[i] - x[j]) / length) / 2);
  }
};

struct Posterior {
  std::vector<double> mean, variance;
};

/// Solves L y = b for the lower triangle L of a Cholesky factor.
std::vector<double> solve_lower(const std::vector<std::vector<double>>& lower,
                                std::vector<double> b) {
  for (std::size_t i = 0; i < b.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) b[i] -= lower[i][j] * b[j];
    b[i] /= lower[i][i];
  }
  return b;
}

/// Returns the posterior (Rasmussen and Williams, algorithm 2.1).
Posterior posterior(const Process& process, std::span<const double> x,
                    std::span<const std::size_t> seen, std::span<const double> values) {
  const std::size_t m = seen.size();
  std::vector<std::vector<double>> lower(m, std::vector<double>(m));
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = process.covariance(x, seen[i], seen[j]);
      if (i == j) sum += square(process.noise);
      for (std::size_t k = 0; k < j; ++k) sum -= lower[i][k] * lower[j][k];
      lower[i][j] = i == j ? std::sqrt(sum) : sum / lower[j][j];
    }
  }
  std::vector<double> residuals(m);
  for (std::size_t i = 0; i < m; ++i) residuals[i] = values[i] - process.mean[seen[i]];
  residuals = solve_lower(lower, std::move(residuals));
  Posterior result{process.mean, std::vector<double>(x.size())};
  for (std::size_t s = 0; s < x.size(); ++s) {
    std::vector<double> across(m);
    for (std::size_t i = 0; i < m; ++i) across[i] = process.covariance(x, s, seen[i]);
    across = solve_lower(lower, std::move(across));
    double explained = 0;
    for (std::size_t i = 0; i < m; ++i) {
      result.mean[s] += across[i] * residuals[i];
      explained += square(across[i]);
    }
    result.variance[s] = std::max(0.0, square(process.deviation[s]) - explained);
  }
  return result;
}

}  // namespace

SettingModel::SettingModel(const Knob& knob, const Measurement& highest, int gpus) {
  HARPE_CHECK(knob.size() > 0 && gpus > 0, "a model is of settings that exist");
  const double drawn = (highest.energy / highest.time).value / gpus;
  for (const double setting : knob.settings()) {
    position_.push_back(prior_position(knob.kind(), setting, knob[0], drawn));
  }
}

std::vector<SettingForecast> SettingModel::forecast(
    std::span<const std::optional<Measurement>> measured) const {
  HARPE_CHECK(measured.size() == position_.size() && measured[0].has_value(),
              "forecasts are relative to the highest setting");
  const Measurement& highest = *measured[0];
  Process time{.mean = {}, .deviation = {}, .length = kPriorTimeLength, .noise = kTimeNoise};
  Process power{.mean = {}, .deviation = {}, .length = kPriorPowerLength, .noise = kPowerNoise};
  for (const double x : position_) {
    const PriorCurve log_time = prior_log_time(x), log_power = prior_log_power(x);
    time.mean.push_back(log_time.mean);
    time.deviation.push_back(log_time.deviation);
    power.mean.push_back(log_power.mean - prior_log_power(position_[0]).mean);
    power.deviation.push_back(log_power.deviation);
  }
  std::vector<std::size_t> seen;
  std::vector<double> times, powers;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (!measured[i]) continue;
    seen.push_back(i);
    times.push_back(std::log(measured[i]->time / highest.time));
    powers.push_back(
        std::log((measured[i]->energy / measured[i]->time) / (highest.energy / highest.time)));
  }
  const Posterior t = posterior(time, position_, seen, times);
  const Posterior p = posterior(power, position_, seen, powers);
  std::vector<SettingForecast> result;
  for (std::size_t i = 0; i < position_.size(); ++i) {
    result.push_back({t.mean[i], t.variance[i] + square(kTimeNoise), p.mean[i], p.variance[i]});
  }
  return result;
}

double ScoreForecast::improvement_on(double log_best) const {
  const double z = (log_best - log_score) / deviation;
  const double below = std::erfc(-z / std::numbers::sqrt2) / 2;
  const double density = std::exp(-z * z / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return (log_best - log_score) * below + deviation * density;
}

ScoreForecast score_of(const SettingForecast& forecast, const Measurement& highest,
                       const ScoreWeights& weights) {
  const double power = (highest.energy / highest.time).value * std::exp(forecast.log_power);
  const double per_second = weights.per_joule * power + weights.per_second;
  const double share = weights.per_joule * power / per_second;
  return {forecast.log_time + std::log(highest.time.value * per_second),
          std::sqrt(forecast.time_variance + square(share) * forecast.power_variance)};
}

double prior_position(KnobKind kind, double setting, double highest, double drawn) {
  if (kind == KnobKind::kPowerLimit) return setting / drawn;
  return kStaticShare + (1 - kStaticShare) * std::pow(setting / highest, kClockExponent);
}

PriorCurve prior_log_time(double x) {
  const double mean = kSlope * kWidth * std::log1p(std::exp((kKnee - x) / kWidth));
  return {mean, kTimeDeviation + kTimeGrowth * mean};
}

PriorCurve prior_log_power(double x) {
  return {-std::log(std::pow(x, -kSharpness) + 1) / kSharpness, kPowerDeviation};
}

double prior_unlimited_power(double limit, double power) {
  const double rest = std::pow(power, -kSharpness) - std::pow(limit, -kSharpness);
  return rest > 0 ? std::pow(rest, -1 / kSharpness) : std::numeric_limits<double>::infinity();
}

}  // namespace harpe::zeus
