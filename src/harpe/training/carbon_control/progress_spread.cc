#include "harpe/training/carbon_control/progress_spread.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace harpe::training {
namespace {

constexpr double kAssumed = 4;           // intervals
constexpr double kAssumedStray = 0.05;   // of each
constexpr double kUsualInterval = 3600;  // s, where none was measured

double upper_tail(double p) {
  const double t = std::sqrt(-2 * std::log(p));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

/// Student's t from the normal quantile, in two terms of its expansion (Abramowitz and Stegun
/// 26.7.5).
double student(double z, double degrees) {
  const double z3 = z * z * z;
  return z + (z3 + z) / (4 * degrees) +
         (5 * z3 * z * z + 16 * z3 + 3 * z) / (96 * degrees * degrees);
}

}  // namespace

double normal_quantile(double p) {
  return p < 0.5 ? -upper_tail(p) : upper_tail(1 - p);
}

void ProgressSpread::add(const Interval& interval) {
  if (!(interval.planned > 0) || !std::isfinite(interval.planned + interval.lost)) return;
  intervals_.push_back(interval);
  if (intervals_.size() > kMostIntervals) intervals_.pop_front();
}

double ProgressSpread::mean_loss() const {
  double planned = 0, lost = 0;
  for (const Interval& one : intervals_) {
    planned += one.planned;
    lost += one.lost;
  }
  if (intervals_.empty()) return 0;
  const double usual = planned / static_cast<double>(intervals_.size());
  return std::max(0.0, lost / (planned + kAssumed * usual));
}

double ProgressSpread::reserve(double work_left, double probability) const {
  if (!(work_left > 0)) return 0;
  double planned = 0, squares = 0;
  const double mean = mean_loss();
  std::vector<double> losses;
  for (const Interval& one : intervals_) {
    planned += one.planned;
    losses.push_back(one.lost - mean * one.planned);
    squares += losses.back() * losses.back();
  }
  const auto count = static_cast<double>(losses.size());
  const double usual = losses.empty() ? std::min(kUsualInterval, work_left) : planned / count;
  planned += kAssumed * usual;
  squares += kAssumed * (kAssumedStray * usual) * (kAssumedStray * usual);
  const double variance = squares / planned;
  const double t = student(normal_quantile(probability), count + kAssumed - 1);
  const double normal =
      t * std::sqrt(variance * work_left + variance * work_left * work_left / planned);
  double single = 0;
  const auto rank = static_cast<std::size_t>(std::ceil((count + 1) * probability));
  if (!losses.empty() && rank <= losses.size()) {
    const auto at = losses.begin() + static_cast<std::ptrdiff_t>(rank) - 1;
    std::ranges::nth_element(losses, at);
    single = std::min(*at, work_left);
  }
  return mean * work_left + std::max({0.0, normal, single});
}

}  // namespace harpe::training
