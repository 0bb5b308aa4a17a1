#pragma once
/// \file
/// What `harpe carbon simulate` says.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "harpe/lab/carbon_replay/carbon_simulation.h"

namespace harpe::command {

/// The same job under another control: other choices, the same work and deadline.
struct ControlOutcomes {
  std::string name;         ///< "one setting", a file
  std::size_t choices = 0;  ///< how many
  std::vector<lab::StartOutcome> outcomes{};
};

/// What can be said before any forecast is made.
struct Prospect {
  std::size_t starts = 0;
  double bound = 0;  ///< no plan saves a larger share of the best static pace, mean of the starts
};

struct SimulationView {
  std::string series, choices;  ///< files
  std::string kind;             ///< of the intensities
  std::string money = {};       ///< of prices, "EUR"; empty: of intensities
  lab::CarbonJob job{};
  bool idle_power_is_assumed = false;
  bool shows_chase = false;  ///< Chase's rule beside one choice all along
  double error_share = 1;    ///< of the forecasts' errors, where it was asked "what if"
  std::vector<lab::StartOutcome> outcomes{};  ///< of starts spread over the series; not empty
  Prospect prospect{};
  std::vector<ControlOutcomes> controls{};  ///< to compare with, of the same starts; may be empty
};

std::string simulation_text(const SimulationView& view);
std::string simulation_json(const SimulationView& view);

// Means and spreads over the starts of a simulation.

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
