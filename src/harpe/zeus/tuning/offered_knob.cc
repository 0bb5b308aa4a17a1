#include "harpe/zeus/tuning/offered_knob.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace harpe {
namespace {

constexpr double kLowestClockShare = 0.45;
constexpr std::size_t kMostClocks = 32;
constexpr double kLimits = 20, kRoundStep = 5;  // W

template <class Range, class Quantity>
bool holds(const std::vector<Range>& ranges, Quantity value) {
  return std::ranges::any_of(
      ranges, [&](const Range& one) { return one.lowest <= value && value <= one.highest; });
}

/// At most `most` values, the ends among them, evenly chosen.
std::vector<double> thinned(const std::vector<double>& values, std::size_t most) {
  if (values.size() <= most) return values;
  std::vector<double> kept;
  const double step = static_cast<double>(values.size() - 1) / static_cast<double>(most - 1);
  for (std::size_t i = 0; i < most; ++i) {
    kept.push_back(values[static_cast<std::size_t>(std::lround(step * static_cast<double>(i)))]);
  }
  return kept;
}

/// The highest clock of a GPU as it was found; 0: not known.
int found_clock(const FoundGpu& gpu) {
  if (gpu.offer.clocks.empty()) return 0;
  const int top = gpu.offer.clocks.back().value;
  const auto& lock = gpu.found.graphics_lock;
  return lock && lock->range ? std::min(lock->range->highest.value, top) : top;
}

Knob descending(KnobKind kind, std::vector<double> settings) {
  Result<Knob> knob = Knob::make(kind, std::move(settings));
  return knob.ok() ? std::move(knob).take() : Knob();
}

}  // namespace

Knob clock_knob(std::span<const FoundGpu> gpus) {
  int top = std::numeric_limits<int>::max();
  for (const FoundGpu& gpu : gpus) top = std::min(top, found_clock(gpu));
  if (gpus.empty() || top <= 0) return {};
  std::vector<double> lower;
  for (const Megahertz clock : gpus.front().offer.clocks) {
    const bool is_for_all = std::ranges::all_of(gpus, [&](const FoundGpu& gpu) {
      return std::ranges::binary_search(gpu.offer.clocks, clock) &&
             holds(gpu.offer.allowed_clocks, clock);
    });
    if (is_for_all && clock.value < top && clock.value >= kLowestClockShare * top) {
      lower.push_back(clock.value);
    }
  }
  std::ranges::reverse(lower);
  std::vector<double> settings = thinned(lower, kMostClocks - 1);
  settings.insert(settings.begin(), top);
  return descending(KnobKind::kGraphicsClock, std::move(settings));
}

Knob limit_knob(std::span<const FoundGpu> gpus) {
  double top = std::numeric_limits<double>::infinity(), lowest = 0;
  for (const FoundGpu& gpu : gpus) {
    if (!gpu.offer.limits) return {};
    const Watts found = gpu.found.power_limit.value_or(gpu.offer.limits->factory);
    top = std::min({top, found.value, gpu.offer.limits->highest.value});
    lowest = std::max(lowest, gpu.offer.limits->lowest.value);
  }
  if (gpus.empty() || !(top > 0)) return {};
  const double step = std::max(1.0, std::ceil((top - lowest) / kLimits / kRoundStep)) * kRoundStep;
  std::vector<double> settings = {top};
  for (double limit = top - step; limit >= lowest && limit > 0; limit -= step) {
    const bool is_for_all = std::ranges::all_of(
        gpus, [&](const FoundGpu& gpu) { return holds(gpu.offer.allowed_limits, Watts{limit}); });
    if (is_for_all) settings.push_back(limit);
  }
  return descending(KnobKind::kPowerLimit, std::move(settings));
}

}  // namespace harpe
