#pragma once
/// \file
/// Means and spreads over the starts of a simulation.

#include <algorithm>
#include <cmath>
#include <span>

#include "harpe/lab/carbon_replay/carbon_simulation.h"

namespace harpe::command {

// Below this share no job need wait.
inline constexpr double kWorthIt = 0.005;

struct OutcomeSpread {
  double mean = 0, deviation = 0, lowest = 0, highest = 0;
};

/// \param value     of the outcome of a start, a number
/// \pre outcomes is not empty
template <class Value>
OutcomeSpread spread(std::span<const lab::StartOutcome> outcomes, Value value) {
  OutcomeSpread found{.lowest = value(outcomes.front()), .highest = value(outcomes.front())};
  const auto count = static_cast<double>(outcomes.size());
  for (const lab::StartOutcome& outcome : outcomes) {
    const double one = value(outcome);
    found.mean += one / count;
    found.lowest = std::min(found.lowest, one);
    found.highest = std::max(found.highest, one);
  }
  for (const lab::StartOutcome& outcome : outcomes) {
    found.deviation += std::pow(value(outcome) - found.mean, 2) / count;
  }
  found.deviation = std::sqrt(found.deviation);
  return found;
}

/// Of one way to choose the speed.
template <class Value>
double mean_of(std::span<const lab::StartOutcome> outcomes,
               lab::WayOutcome lab::StartOutcome::* way, Value value) {
  return spread(outcomes, [&](const lab::StartOutcome& one) { return value(one.*way); }).mean;
}

inline double mean_grams(std::span<const lab::StartOutcome> outcomes,
                         lab::WayOutcome lab::StartOutcome::* way) {
  return mean_of(outcomes, way, [](const lab::WayOutcome& one) { return one.grams; });
}

}  // namespace harpe::command
