#pragma once
/// \file
/// Output of `harpe carbon simulate`.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "harpe/lab/carbon_replay/carbon_simulation.h"

namespace harpe::command {

/// The same job with other choices, for the same work and deadline.
struct ControlOutcomes {
  std::string name;         ///< "one setting", a file
  std::size_t choices = 0;  ///< number of choices
  std::vector<lab::StartOutcome> outcomes{};
};

/// The results that need no forecast.
struct Prospect {
  std::size_t starts = 0;
  /// Highest share of the best static pace that a plan can save, mean over the starts.
  double bound = 0;
};

struct SimulationView {
  std::string series, choices;  ///< files
  std::string kind;             ///< of the intensities
  std::string money = {};       ///< currency of prices, "EUR"; empty for intensities
  lab::CarbonJob job{};
  bool idle_power_is_assumed = false;
  bool shows_chase = false;                   ///< show Chase's rule beside one constant choice
  double error_share = 1;                     ///< of the forecasts' errors, for "what if" questions
  std::vector<lab::StartOutcome> outcomes{};  ///< of starts spread over the series; not empty
  Prospect prospect{};
  std::vector<ControlOutcomes> controls{};  ///< to compare with, for the same starts; may be empty
};

std::string simulation_text(const SimulationView& view);
std::string simulation_json(const SimulationView& view);

// Means and spreads over the starts of a simulation.

// A smaller share of savings is not worth waiting for.
inline constexpr double kWorthIt = 0.005;

struct OutcomeSpread {
  double mean = 0, deviation = 0, lowest = 0, highest = 0;
};

/// Returns mean and spread of a value over the starts.
/// \param value  returns a number for the outcome of a start
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

/// Returns the mean of a value over the starts, for one way to choose the speed.
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
