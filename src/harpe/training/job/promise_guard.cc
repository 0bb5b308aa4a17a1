#include "harpe/training/job/promise_guard.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

namespace harpe::training {
namespace {

double deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double square = 0;
  for (const double value : values) square += (value - mean) * (value - mean);
  return std::sqrt(square / (count - 1));
}

}  // namespace

bool PromiseGuard::add(std::int64_t iteration, Seconds time, Seconds allowed) {
  const double ratio = time / allowed;
  if (!std::isfinite(ratio)) return false;
  if (ratio > options_.stall) {
    ++stalls_;
    return true;
  }
  ratios_.push_back({iteration, ratio});
  if (ratios_.size() > options_.window) ratios_.pop_front();
  return false;
}

void PromiseGuard::forget_since(std::int64_t iteration) {
  while (!ratios_.empty() && ratios_.back().iteration >= iteration) ratios_.pop_back();
}

std::vector<double> PromiseGuard::usual(std::size_t newest) const {
  std::vector<double> ratios;
  for (std::size_t i = ratios_.size() - newest; i < ratios_.size(); ++i)
    ratios.push_back(ratios_[i].ratio);
  std::ranges::sort(ratios);
  ratios.resize(newest - (newest + 9) / 10);
  return ratios;
}

std::optional<PromiseGuard::Mean> PromiseGuard::mean(std::size_t most) const {
  const std::size_t count = std::min(most, ratios_.size());
  if (count == 0) return std::nullopt;
  const std::vector<double> newest = usual(count);
  const auto kept = static_cast<double>(newest.size());
  const double mean = std::accumulate(newest.begin(), newest.end(), 0.0) / kept;
  // The deviation of a few values is uncertain, and that of the whole window hides a burst.
  const double off = std::max(deviation(newest), deviation(usual(ratios_.size())));
  return Mean{.ratio = mean, .error = off / std::sqrt(kept), .iterations = count};
}

std::optional<PromiseGuard::Mean> PromiseGuard::broken(double allowed_error, double errors) const {
  constexpr std::array<std::size_t, 5> kCounts = {8, 16, 32, 64, 100};
  for (const std::size_t count : kCounts) {
    if (ratios_.size() < std::min(count, options_.window)) break;
    const Mean over = *mean(count);
    const double error = std::hypot(over.error, allowed_error);
    if (over.ratio - 1 > options_.tolerance && over.ratio - 1 > errors * error) return over;
  }
  return std::nullopt;
}

}  // namespace harpe::training
