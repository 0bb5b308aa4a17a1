#include "harpe/device/measure/power_regression.h"

#include <algorithm>
#include <cmath>

#include "harpe/base/statistics.h"

namespace harpe {
namespace {

constexpr double kLeastVariance = 1e-12;  // J^2

double length(const EnergySpan& span) {
  return span.to - span.from;
}

}  // namespace

PowerRegression::PowerRegression(std::span<const SpanReading> readings,
                                 std::span<const StepTime> steps, const PowerPrior& prior)
    : readings_(readings), steps_(steps), prior_(prior) {
  for (const SpanReading& reading : readings) {
    instants_.push_back(reading.span.from);
    instants_.push_back(reading.span.to);
  }
  for (const SpanReading& a : readings) {
    for (const SpanReading& b : readings) {
      double sum = square(prior.deviation) * length(a.span) * length(b.span);
      if (&a == &b) sum += a.variance;
      if (a.is_sample && b.is_sample) sum += square(prior.common_scale) * a.energy * b.energy;
      common_.push_back(sum);
    }
  }
  const std::span<const PowerManner> manners = power_manners();
  factors_.resize(manners.size());
  log_densities_.resize(manners.size());
  for (std::size_t first = 0; first < manners.size();) {
    const std::size_t kernel = manners[first].kernel;
    const SpanCovariance shape(power_kernels()[kernel], prior.period, instants_);
    for (; first < manners.size() && manners[first].kernel == kernel; ++first) factor(first, shape);
  }
}

/// Of what counters show, because of when their steps came.
double PowerRegression::noise_covariance(const EnergySpan& a, const EnergySpan& b,
                                         double jitter) const {
  const auto variance = [&](int step) {
    const StepTime& time = steps_[static_cast<std::size_t>(step)];
    return square(time.power) * (square(jitter * time.jitter) + square(time.fixed));
  };
  double sum = 0;
  if (a.to_step >= 0) {
    if (a.to_step == b.to_step) sum += variance(a.to_step);
    if (a.to_step == b.from_step) sum -= variance(a.to_step);
  }
  if (a.from_step >= 0) {
    if (a.from_step == b.from_step) sum += variance(a.from_step);
    if (a.from_step == b.to_step) sum -= variance(a.from_step);
  }
  return sum;
}

void PowerRegression::factor(std::size_t manner, const SpanCovariance& shape) {
  const PowerManner& how = power_manners()[manner];
  const double variance = square(how.amplitude * prior_.level);
  const std::size_t count = readings_.size();
  Factor& factor = factors_[manner];
  factor.rows.resize(count * count);
  factor.z.resize(count);
  double density = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const SpanReading& a = readings_[i];
    double* const row = &factor.rows[i * count];
    for (std::size_t j = 0; j <= i; ++j) {
      const SpanReading& b = readings_[j];
      double sum = common_[i * count + j] + variance * shape(2 * i, 2 * i + 1, 2 * j, 2 * j + 1) +
                   noise_covariance(a.span, b.span, how.jitter);
      const double* const other = &factor.rows[j * count];
      for (std::size_t k = 0; k < j; ++k) sum -= row[k] * other[k];
      row[j] = i == j ? std::sqrt(std::max(sum, kLeastVariance)) : sum / other[j];
    }
    double off = a.energy - prior_.mean * length(a.span);
    for (std::size_t k = 0; k < i; ++k) off -= row[k] * factor.z[k];
    factor.z[i] = off / row[i];
    density -= 0.5 * square(factor.z[i]) + std::log(row[i]);
    log_densities_[manner].push_back(density);
  }
}

std::vector<PowerRegression::Prediction> PowerRegression::predict(
    std::size_t manner, std::span<const std::size_t> counts,
    std::span<const EnergySpan> targets) const {
  const PowerManner& how = power_manners()[manner];
  const double variance = square(how.amplitude * prior_.level), level = square(prior_.deviation);
  const std::size_t n = targets.size(), readings = readings_.size();
  const std::size_t most = counts.empty() ? 0 : *std::ranges::max_element(counts);
  std::vector<double> instants = instants_;
  for (const EnergySpan& target : targets) {
    instants.push_back(target.from);
    instants.push_back(target.to);
  }
  const SpanCovariance shape(power_kernels()[how.kernel], prior_.period, instants);
  const auto covariance = [&](const EnergySpan& a, std::size_t at_a, const EnergySpan& b,
                              std::size_t at_b) {
    return level * length(a) * length(b) + variance * shape(at_a, at_a + 1, at_b, at_b + 1) +
           noise_covariance(a, b, how.jitter);
  };
  const Factor& factor = factors_[manner];
  std::vector<double> rows(most * n), own(n * n);
  for (std::size_t k = 0; k < most; ++k) {
    const double* const row = &factor.rows[k * readings];
    for (std::size_t i = 0; i < n; ++i) {
      double sum = covariance(targets[i], 2 * (readings + i), readings_[k].span, 2 * k);
      for (std::size_t q = 0; q < k; ++q) sum -= row[q] * rows[q * n + i];
      rows[k * n + i] = sum / row[k];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      own[i * n + j] = own[j * n + i] =
          covariance(targets[i], 2 * (readings + i), targets[j], 2 * (readings + j));
    }
  }
  std::vector<Prediction> predictions;
  for (const std::size_t count : counts) {
    Prediction prediction{.mean = std::vector<double>(n), .covariance = own};
    for (std::size_t i = 0; i < n; ++i) {
      prediction.mean[i] = prior_.mean * length(targets[i]);
      for (std::size_t k = 0; k < count; ++k) {
        prediction.mean[i] += rows[k * n + i] * factor.z[k];
        for (std::size_t j = 0; j < n; ++j) {
          prediction.covariance[i * n + j] -= rows[k * n + i] * rows[k * n + j];
        }
      }
    }
    predictions.push_back(std::move(prediction));
  }
  return predictions;
}

}  // namespace harpe
