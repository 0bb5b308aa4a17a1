#pragma once
/// \file
/// What is believed of time and power under a setting before this job was measured under it: the
/// prior of setting_model.h, over its x.
///
/// Natural logarithms; pure.

#include "harpe/zeus/power_limit/knob.h"

namespace harpe::zeus {

/// Of a process about the prior: standard deviation, and how far in x settings share it.
struct PriorCurve {
  double mean = 0, deviation = 0;
};
inline constexpr double kPriorTimeLength = 0.1, kPriorPowerLength = 0.2;

/// x of a setting. \param drawn  W, a GPU, at the knob's first setting
double prior_position(KnobKind kind, double setting, double highest, double drawn);
/// Of time, relative to that under a setting that holds nothing back.
PriorCurve prior_log_time(double x);
/// Of power, likewise.
PriorCurve prior_log_power(double x);
/// What a GPU would draw with nothing held back (W), which draws `power` under a power limit;
/// infinite where it draws all that the limit lets it.
double prior_unlimited_power(double limit, double power);

}  // namespace harpe::zeus
