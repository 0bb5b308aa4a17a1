#include "harpe/job/drift_watch.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harpe/base/statistics.h"

namespace harpe {

DriftWatch::DriftWatch(int stages, Options options)
    : options_(options), energy_(static_cast<std::size_t>(stages)) {
  reset();
}

void DriftWatch::reset() {
  const std::vector<double> unknown(static_cast<std::size_t>(options_.window),
                                    std::numeric_limits<double>::quiet_NaN());
  time_ = unknown;
  for (std::vector<double>& ratios : energy_) ratios = unknown;
  next_ = 0;
}

void DriftWatch::add(double time, std::span<const double> energy) {
  time_[next_] = time;
  for (std::size_t stage = 0; stage < energy_.size(); ++stage)
    energy_[stage][next_] = energy[stage];
  next_ = (next_ + 1) % time_.size();
}

std::optional<double> DriftWatch::slower() const {
  std::vector<double> beyond;
  for (const double ratio : time_)
    if (ratio > 1 + options_.slower) beyond.push_back(ratio);
  if (beyond.size() < static_cast<std::size_t>(options_.needed)) return std::nullopt;
  return quantile(beyond, 0.5);
}

std::vector<int> DriftWatch::moved() const {
  std::vector<int> stages;
  for (std::size_t stage = 0; stage < energy_.size(); ++stage) {
    // All on one side: noise around the bound is no drift.
    const auto above = std::ranges::count_if(
        energy_[stage], [&](double ratio) { return ratio > 1 + options_.energy; });
    const auto below = std::ranges::count_if(
        energy_[stage], [&](double ratio) { return ratio < 1 - options_.energy; });
    if (std::max(above, below) >= options_.needed) stages.push_back(static_cast<int>(stage));
  }
  return stages;
}

}  // namespace harpe
