#include "harpe/base/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace harpe {

double student_quantile(int degrees) {
  constexpr std::array<double, 4> kSmall = {12.7062, 4.30265, 3.18245, 2.77645};
  if (degrees <= 4) return kSmall.at(static_cast<std::size_t>(std::max(degrees, 1) - 1));
  // The expansion of Cornish and Fisher around the normal quantile.
  const double z = kNinetyFivePercent, n = degrees;
  const double z2 = z * z;
  return z + z * (z2 + 1) / (4 * n) + z * (5 * z2 * z2 + 16 * z2 + 3) / (96 * n * n) +
         z * (3 * z2 * z2 * z2 + 19 * z2 * z2 + 17 * z2 - 15) / (384 * n * n * n);
}

MeanWithError mean_with_error(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  MeanWithError result;
  for (const double value : values) result.mean += value / count;
  if (values.size() < 2) return {result.mean, std::numeric_limits<double>::infinity()};
  double square = 0;
  for (const double value : values) square += (value - result.mean) * (value - result.mean);
  const int degrees = static_cast<int>(values.size()) - 1;
  result.error = student_quantile(degrees) * std::sqrt(square / degrees / count);
  return result;
}

MeanWithError mean_with_error(std::span<const double> values, std::span<const double> errors) {
  constexpr double kLeastError = 1e-4;  // relative: no value is more precise
  const MeanWithError plain = mean_with_error(values);
  const double least = square(kLeastError * plain.mean);
  if (values.size() < 2 || least == 0) return plain;
  std::vector<double> weights;
  double sum = 0, squares = 0, mean = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    weights.push_back(1 / (square(errors[i] / kNinetyFivePercent) + least));
    sum += weights[i];
    squares += square(weights[i]);
    mean += weights[i] * values[i];
  }
  mean /= sum;
  const auto degrees = static_cast<double>(values.size() - 1);
  double scatter = -degrees;
  for (std::size_t i = 0; i < values.size(); ++i) scatter += weights[i] * square(values[i] - mean);
  const double beyond = std::max(0.0, scatter / (sum - squares / sum));

  double weight = 0, known = 0;
  MeanWithError result;
  for (std::size_t i = 0; i < values.size(); ++i) {
    weights[i] = 1 / (1 / weights[i] + beyond);
    weight += weights[i];
    result.mean += weights[i] * values[i];
    known += square(weights[i] * errors[i]);
  }
  result.mean /= weight;
  scatter = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    scatter += weights[i] * square(values[i] - result.mean);
  const double student = student_quantile(static_cast<int>(degrees));
  result.error =
      std::hypot(student * std::sqrt(scatter / degrees / weight), std::sqrt(known) / weight);
  return result;
}

double quantile(std::span<const double> values, double share) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - std::floor(place)) * (sorted[above] - sorted[below]);
}

double lower_median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double RunningMedian::add(double value) {
  constexpr std::size_t kRemembered = 15;
  if (newest_.size() < kRemembered) {
    newest_.push_back(value);
  } else {
    newest_[next_++ % kRemembered] = value;
  }
  return quantile(newest_, 0.5);
}

}  // namespace harpe
