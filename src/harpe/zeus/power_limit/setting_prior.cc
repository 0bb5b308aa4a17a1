#include "harpe/zeus/power_limit/setting_prior.h"

#include <cmath>
#include <limits>

namespace harpe::zeus {
namespace {

// Log time: a softplus.
constexpr double kSlope = 5.5, kKnee = 0.45, kWidth = 0.16;
constexpr double kTimeDeviation = 0.01, kTimeGrowth = 0.3;
// Power: (x^-k + 1)^(-1/k).
constexpr double kSharpness = 4.5;
constexpr double kPowerDeviation = 0.06;
// Power at a clock f: static share + the rest * (f / highest)^exponent, between voltage at its
// floor (1) and falling with the clock (3).
constexpr double kStaticShare = 0.3, kClockExponent = 2.2;

}  // namespace

double prior_position(KnobKind kind, double setting, double highest, double drawn) {
  if (kind == KnobKind::kPowerLimit) return setting / drawn;
  return kStaticShare + (1 - kStaticShare) * std::pow(setting / highest, kClockExponent);
}

PriorCurve prior_log_time(double x) {
  const double mean = kSlope * kWidth * std::log1p(std::exp((kKnee - x) / kWidth));
  return {mean, kTimeDeviation + kTimeGrowth * mean};
}

PriorCurve prior_log_power(double x) {
  return {-std::log(std::pow(x, -kSharpness) + 1) / kSharpness, kPowerDeviation};
}

double prior_unlimited_power(double limit, double power) {
  const double rest = std::pow(power, -kSharpness) - std::pow(limit, -kSharpness);
  return rest > 0 ? std::pow(rest, -1 / kSharpness) : std::numeric_limits<double>::infinity();
}

}  // namespace harpe::zeus
