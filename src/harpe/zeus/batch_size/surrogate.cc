#include "harpe/zeus/batch_size/surrogate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

namespace harpe::zeus {
namespace {

// Above this number, the sum below equals the mean plus a half, within 0.3 %.
constexpr double kManyEpochs = 16;
constexpr double kNoChance = 1e-4;
constexpr int kMostWholeEpochs = 200;

// Variance of the level, which is unknown beforehand: a factor of e^10 either way.
constexpr double kLevelVariance = 100;
// Distance at which neighbours share the deviation from the quadratic, in doublings.
constexpr double kReach = 1.5;
constexpr double kLeastVariance = 1e-12;

double square_of(double x) {
  return x * x;
}

}  // namespace

Surrogate::Surrogate(const SurrogatePrior& prior, double origin, const std::vector<Value>& values)
    : prior_(prior), origin_(origin) {
  std::vector<double> surprises;
  for (const Value& value : values) {
    distances_.push_back(value.doublings - origin);
    surprises.push_back(value.value - expected(distances_.back()));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::vector<double>& row = factor_.emplace_back();
    for (std::size_t j = 0; j <= i; ++j) {
      double left = covariance(distances_[i], distances_[j]) + (i == j ? values[i].variance : 0);
      const std::vector<double>& other = j == i ? row : factor_[j];
      for (std::size_t k = 0; k < j; ++k) left -= row[k] * other[k];
      row.push_back(i == j ? std::sqrt(std::max(left, kLeastVariance)) : left / other[j]);
    }
  }
  weights_ = solved(std::move(surprises));
  for (std::size_t i = weights_.size(); i-- > 0;) {
    for (std::size_t k = i + 1; k < weights_.size(); ++k)
      weights_[i] -= factor_[k][i] * weights_[k];
    weights_[i] /= factor_[i][i];
  }
}

Estimate Surrogate::at(double doublings) const {
  const double distance = doublings - origin_;
  std::vector<double> shared;
  Estimate estimate{.mean = expected(distance), .variance = covariance(distance, distance)};
  for (std::size_t i = 0; i < distances_.size(); ++i) {
    shared.push_back(covariance(distance, distances_[i]));
    estimate.mean += shared.back() * weights_[i];
  }
  for (const double known : solved(std::move(shared))) estimate.variance -= square_of(known);
  estimate.variance = std::max(estimate.variance, kLeastVariance);
  return estimate;
}

double Surrogate::expected(double distance) const {
  return prior_.slope * distance + prior_.bend * distance * distance / 2;
}

double Surrogate::covariance(double a, double b) const {
  const double wave = std::exp(-square_of((a - b) / kReach) / 2);
  return kLevelVariance + square_of(prior_.slope_deviation) * a * b +
         square_of(prior_.bend_deviation * a * b / 2) + square_of(prior_.waviness) * wave +
         (a == b ? square_of(prior_.scatter) : 0);
}

/// Returns `right` divided by the lower triangle of the factor.
std::vector<double> Surrogate::solved(std::vector<double> right) const {
  for (std::size_t i = 0; i < right.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) right[i] -= factor_[i][k] * right[k];
    right[i] /= factor_[i][i];
  }
  return right;
}

double expected_whole_epochs(const Estimate& log_needed) {
  const double mean = std::exp(log_needed.mean + log_needed.variance / 2);
  if (mean > kManyEpochs) return mean + 0.5;
  // The mean of a whole number is the sum of its probabilities to exceed 0, 1, 2, ...
  const double deviation = std::sqrt(log_needed.variance);
  double sum = 1;
  for (int epochs = 1; epochs < kMostWholeEpochs; ++epochs) {
    const double z = (std::log(epochs) - log_needed.mean) / deviation;
    const double chance = std::erfc(z / std::numbers::sqrt2) / 2;
    sum += chance;
    if (z > 0 && chance < kNoChance) break;
  }
  return sum;
}

Estimate needed_for(double taken) {
  const double needed = taken - 0.5;
  // Uniform over one epoch: the standard deviation is 1 / sqrt(12) epochs.
  return {.mean = std::log(needed), .variance = 1 / (12 * needed * needed)};
}

}  // namespace harpe::zeus
