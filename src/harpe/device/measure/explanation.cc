#include "harpe/device/measure/explanation.h"

#include <algorithm>
#include <cmath>

#include "harpe/base/statistics.h"

namespace harpe::device {
namespace {

constexpr double kUnlikely = 1e-3;   // explanations below are left out
constexpr double kAlikeMeans = 0.5;  // standard deviations between means, to be put together

}  // namespace

std::vector<Explanation> simplified(std::vector<Explanation> explanations) {
  std::erase_if(explanations, [](const Explanation& one) { return one.weight < kUnlikely; });
  std::ranges::sort(explanations, {}, &Explanation::energy);
  std::vector<Explanation> few;
  for (const Explanation& one : explanations) {
    Explanation* const last = few.empty() ? nullptr : &few.back();
    if (last == nullptr || square(one.energy - last->energy) >
                               square(kAlikeMeans) * std::min(one.variance, last->variance)) {
      few.push_back(one);
      continue;
    }
    const double weight = last->weight + one.weight;
    const auto mean = [&](double a, double b) {
      return (last->weight * a + one.weight * b) / weight;
    };
    const double energy = mean(last->energy, one.energy);
    last->variance = mean(last->variance + square(last->energy - energy),
                          one.variance + square(one.energy - energy));
    last->power = mean(last->power, one.power);
    last->energy = energy;
    last->weight = weight;
  }
  double sum = 0;
  for (const Explanation& one : few) sum += one.weight;
  for (Explanation& one : few) one.weight /= sum;
  return few;
}

MeanAndError summary_of(const std::vector<Explanation>& explanations, double share_held) {
  MeanAndError summary;
  double variance = 0;
  for (const Explanation& one : explanations) summary.mean += one.weight * one.energy;
  for (const Explanation& one : explanations) {
    variance += one.weight * (one.variance + square(one.energy - summary.mean));
  }
  const auto held = [&](double half) {
    double share = 0;
    for (const Explanation& one : explanations) {
      const double scale = std::sqrt(2 * one.variance), off = one.energy - summary.mean;
      share += one.weight * (std::erf((half - off) / scale) - std::erf((-half - off) / scale)) / 2;
    }
    return share;
  };
  // Chebyshev's inequality.
  double low = 0, high = std::sqrt(variance / (1 - share_held));
  constexpr int kHalvings = 20;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (held(middle) < share_held ? low : high) = middle;
  }
  summary.error = high;
  return summary;
}

}  // namespace harpe::device
