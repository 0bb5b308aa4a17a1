#include "harpe/zeus/batch_size/whole_epochs.h"

#include <cmath>
#include <numbers>

namespace harpe::zeus {
namespace {

// Above so many the sum below is the mean and a half, within 0.3 %.
constexpr double kManyEpochs = 16;
constexpr double kNoChance = 1e-4;
constexpr int kMostWholeEpochs = 200;

}  // namespace

double expected_whole_epochs(const Estimate& log_needed) {
  const double mean = std::exp(log_needed.mean + log_needed.variance / 2);
  if (mean > kManyEpochs) return mean + 0.5;
  // A whole number's mean is the sum of the chances to exceed 0, 1, 2, ...
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
  // Uniform over one epoch: its standard deviation is 1 / sqrt(12) of it.
  return {.mean = std::log(needed), .variance = 1 / (12 * needed * needed)};
}

}  // namespace harpe::zeus
