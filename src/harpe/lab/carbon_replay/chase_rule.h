#pragma once
/// \file
/// Chase's choice of a power limit for the next interval (Chase: Yang et al., ICLR 2023 workshop on
/// climate change): least
///
///     (eta P CI + (1 - eta) P_max CI_max) / throughput
///
/// with P the power under a limit, CI the intensity forecast for the interval, and P_max and CI_max
/// the highest of each. Where CI does not change, nor does the choice.

#include <cstddef>
#include <span>

#include "harpe/carbon/pacing/pace_curve.h"

namespace harpe::lab {

/// The defaults are the published ones.
struct ChaseTerms {
  double eta = 0.24;
  double highest_intensity = 750;  ///< g/kWh
  Watts highest_power{300};        ///< of all GPUs of the job
};

/// Position in `choices`, not empty; of several that are as good the first. Pure.
std::size_t chase_choice(std::span<const carbon::PieceCost> choices, double intensity,
                         const ChaseTerms& terms);

}  // namespace harpe::lab
