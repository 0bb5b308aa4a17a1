#pragma once
/// \file
/// One job under several controls, such as one setting for all its computations and one for each:
/// what part of a saving is due to which.

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "harpe/command/carbon_cli/outcome_spread.h"
#include "harpe/command/carbon_cli/simulation_view.h"

namespace harpe {

struct ControlWay {
  const char* key;
  const char* name;
  WayOutcome StartOutcome::* outcome;
};
inline constexpr std::array<ControlWay, 3> kControlWays{
    {{"static", "best static", &StartOutcome::best_static},
     {"harpe", "Harpe", &StartOutcome::harpe},
     {"hindsight", "hindsight", &StartOutcome::hindsight}}};

/// Means over the starts; grams are money where the series is of prices.
struct ComparedControl {
  std::string name;
  std::size_t choices = 0;
  struct Figures {
    double grams = 0, kwh = 0, hours = 0;
    int late = 0;
    OutcomeSpread saving;  ///< over the best static pace of any control at that start, a share
  };
  std::array<Figures, kControlWays.size()> ways;  ///< in the order of kControlWays
};

/// A saving over all-max, taken apart: by a control's best static pace, by that of the finer one
/// beyond it, and by following the grid with the finer one's forecast. Grams or money, means.
struct ControlGain {
  std::string control;
  double coarse = 0, fine = 0, grid = 0;
};

/// Those to compare with, then the job's own.
std::vector<ComparedControl> compared_controls(const SimulationView& view);
/// One for each to compare with.
std::vector<ControlGain> control_gains(const SimulationView& view);

/// A table and a sentence for each gain.
std::string compared_controls_text(const SimulationView& view);

}  // namespace harpe
