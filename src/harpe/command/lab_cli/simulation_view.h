#pragma once
/// \file
/// What `harpe carbon simulate` says.

#include <cstddef>
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

}  // namespace harpe::command
