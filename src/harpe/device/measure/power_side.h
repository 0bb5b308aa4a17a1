#pragma once
/// \file
/// What the readings on one side of a gap between two steps of an energy counter say about power
/// inside the gap.
///
/// Model. Power runs on in one manner for some time (a run), then changes to another of which
/// nothing is known but the range. The step in which it changed is a mixture that belongs to none.
/// Within a run it is a Gaussian process around an unknown level: steady, or rough with one of
/// several amplitudes and times, or swinging at one of several frequencies. The response is the
/// average over all of these manners, and over how many readings the run reaches back, weighted by
/// how well they explain the readings (Bayesian model averaging; the length of runs as in Adams and
/// MacKay, arXiv 0710.3742). Private to the room.

#include <cstddef>
#include <span>
#include <vector>

#include "harpe/device/measure/power_regression.h"

namespace harpe {

/// Energies of spans in the gap: a normal distribution.
struct SideEnergy {
  double weight = 1;               ///< probability of this explanation
  bool runs_on = true;             ///< from the readings; else they say nothing
  std::vector<double> mean;        ///< J
  std::vector<double> covariance;  ///< J^2, square
  double c(int i, int j) const {
    return covariance[static_cast<std::size_t>(i) * mean.size() + static_cast<std::size_t>(j)];
  }
};

/// All that one side tells.
struct SideAnswer {
  /// Where power runs on from the readings, and where it changed within the nearest so that they
  /// say nothing; what is unlikely is left out.
  std::vector<SideEnergy> energies;
  double log_evidence = 0;  ///< log density of the readings
  std::size_t run = 0;      ///< so many of the nearest readings are one run, most likely
  double log_rest = 0;      ///< log density of the others, with that the run ends there
};

/// \param readings  nearest to the gap first
/// O(readings^3) for each manner, and O(readings x targets^2) for those that explain the readings.
SideAnswer energy_beyond(std::span<const SpanReading> readings, std::span<const StepTime> steps,
                         const PowerPrior& prior, std::span<const EnergySpan> targets);

}  // namespace harpe
