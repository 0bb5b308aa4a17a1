#include "harpe/training/job/drift_watch.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harpe/base/statistics.h"

namespace harpe::training {

DriftWatch::DriftWatch(int stages, Options options)
    : options_(options), stages_(static_cast<std::size_t>(stages)) {
  reset();
}

void DriftWatch::reset() {
  const std::vector<double> unknown(static_cast<std::size_t>(options_.window),
                                    std::numeric_limits<double>::quiet_NaN());
  for (Ratios& ratios : stages_) ratios = {.all = unknown, .computations = unknown};
  next_ = 0;
}

void DriftWatch::add(std::span<const double> all, std::span<const double> computations) {
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    stages_[stage].all[next_] = all[stage];
    stages_[stage].computations[next_] = computations[stage];
  }
  next_ = (next_ + 1) % static_cast<std::size_t>(options_.window);
}

std::vector<DriftWatch::Moved> DriftWatch::moved() const {
  std::vector<Moved> stages;
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    const Ratios& ratios = stages_[stage];
    const auto above =
        std::ranges::count_if(ratios.all, [&](double ratio) { return ratio > 1 + options_.bound; });
    const auto below =
        std::ranges::count_if(ratios.all, [&](double ratio) { return ratio < 1 - options_.bound; });
    if (std::max(above, below) < options_.needed) continue;
    std::vector<double> known;
    for (const double ratio : ratios.computations)
      if (std::isfinite(ratio)) known.push_back(ratio);
    stages.push_back({.stage = static_cast<int>(stage),
                      .factor = known.empty() ? std::numeric_limits<double>::quiet_NaN()
                                              : quantile(known, 0.5)});
  }
  return stages;
}

}  // namespace harpe::training
