#include "harpe/command/carbon_cli/compared_controls.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/command/command/quantity_text.h"
#include "harpe/command/command/text_layout.h"

namespace harpe {
namespace {

/// Of each start the best static pace of any control, and what savings over it are shares of.
struct References {
  std::vector<double> grams, base;
};

References references_of(const SimulationView& view) {
  References references;
  double sum = 0;
  for (std::size_t i = 0; i < view.outcomes.size(); ++i) {
    double least = view.outcomes[i].best_static.grams;
    for (const ControlOutcomes& control : view.controls) {
      least = std::min(least, control.outcomes[i].best_static.grams);
    }
    references.grams.push_back(least);
    sum += std::abs(least);
  }
  references.base = references.grams;
  if (!view.money.empty()) {  // which may be negative
    const double mean = sum / static_cast<double>(view.outcomes.size());
    references.base.assign(view.outcomes.size(), std::max(1e-12, mean));
  }
  return references;
}

ComparedControl compared(std::string name, std::size_t choices,
                         std::span<const StartOutcome> outcomes, const References& references) {
  ComparedControl control{.name = std::move(name), .choices = choices, .ways = {}};
  for (std::size_t w = 0; w < kControlWays.size(); ++w) {
    const auto way = kControlWays[w].outcome;
    ComparedControl::Figures& figures = control.ways[w];
    figures.grams = mean_grams(outcomes, way);
    figures.kwh =
        mean_of(outcomes, way, [](const WayOutcome& one) { return one.energy.value / 3.6e6; });
    figures.hours =
        mean_of(outcomes, way, [](const WayOutcome& one) { return one.time.value / 3600; });
    for (const StartOutcome& one : outcomes) figures.late += (one.*way).in_time ? 0 : 1;
    figures.saving = spread(outcomes, [&](const StartOutcome& one) {
      const auto i = static_cast<std::size_t>(&one - outcomes.data());
      return (references.grams[i] - (one.*way).grams) / references.base[i];
    });
  }
  return control;
}

}  // namespace

std::vector<ComparedControl> compared_controls(const SimulationView& view) {
  const References references = references_of(view);
  std::vector<ComparedControl> controls;
  for (const ControlOutcomes& control : view.controls) {
    controls.push_back(compared(control.name, control.choices, control.outcomes, references));
  }
  controls.push_back(compared(view.choices, view.job.choices.size(), view.outcomes, references));
  return controls;
}

std::vector<ControlGain> control_gains(const SimulationView& view) {
  const double all_max = mean_grams(view.outcomes, &StartOutcome::all_max);
  const double fine = mean_grams(view.outcomes, &StartOutcome::best_static);
  const double harpe = mean_grams(view.outcomes, &StartOutcome::harpe);
  std::vector<ControlGain> gains;
  for (const ControlOutcomes& control : view.controls) {
    const double coarse = mean_grams(control.outcomes, &StartOutcome::best_static);
    gains.push_back({control.name, all_max - coarse, coarse - fine, fine - harpe});
  }
  return gains;
}

std::string compared_controls_text(const SimulationView& view) {
  const bool is_price = !view.money.empty();
  const double unit = is_price ? 1 : 1000;
  const std::string unit_name = is_price ? view.money : "kg CO2eq";
  Table table = Table::of({"", unit_name, "kWh", "hours", "saving", "worst start"});
  for (const ComparedControl& control : compared_controls(view)) {
    table.add({control.name + " (" + std::to_string(control.choices) + " choices)"});
    for (std::size_t w = 0; w < kControlWays.size(); ++w) {
      const ComparedControl::Figures& figures = control.ways[w];
      table.add({std::string("  ") + kControlWays[w].name, grouped(figures.grams / unit, 2),
                 grouped(figures.kwh, 1), grouped(figures.hours, 1),
                 percent_text(100 * figures.saving.mean, 2),
                 percent_text(100 * figures.saving.lowest, 2)});
    }
  }
  std::string text =
      "The same job under other controls, each by the same deadline; saving over the best static "
      "pace of any\n\n" +
      table.text(false);
  for (const ControlGain& gain : control_gains(view)) {
    const auto amount = [&](double grams) { return grouped(grams / unit, 2); };
    text += "\nOf " + amount(gain.coarse + gain.fine + gain.grid) + " " + unit_name +
            " saved over " + (view.job.all_max ? "all-max" : "the fastest choice") + ", " +
            gain.control + " saves " + amount(gain.coarse) + " at its best static pace, the " +
            view.choices + " " + amount(gain.fine) + " more at its own, and following " +
            (is_price ? "prices " : "the grid ") + amount(gain.grid) + ".\n";
  }
  return text;
}

}  // namespace harpe
