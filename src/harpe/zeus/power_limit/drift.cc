#include "harpe/zeus/power_limit/drift.h"

#include <cmath>

namespace harpe::zeus {
namespace {

// The number of steps in the median: it then contains only newer steps.
constexpr int kEnough = 15;

}  // namespace

bool DriftDetector::add(Seconds step) {
  if (!std::isfinite(step.value) || step.value <= 0) return false;
  const double median = median_.add(step.value);
  if (++steps_ < kEnough) return false;
  const bool beyond = std::abs(median / expected_.value - 1) > tolerance_;
  steps_beyond_ = beyond ? steps_beyond_ + 1 : 0;
  return steps_beyond_ >= kEnough;
}

}  // namespace harpe::zeus
