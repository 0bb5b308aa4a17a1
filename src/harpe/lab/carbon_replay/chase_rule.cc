#include "harpe/lab/carbon_replay/chase_rule.h"

#include <algorithm>

namespace harpe::lab {

std::size_t chase_choice(std::span<const carbon::PieceCost> choices, double intensity,
                         const ChaseTerms& terms) {
  const auto cost = [&](const carbon::PieceCost& piece) {
    const double held = terms.highest_power.value * terms.highest_intensity * piece.time.value;
    return terms.eta * piece.energy.value * intensity + (1 - terms.eta) * held;
  };
  const auto best = std::ranges::min_element(choices, {}, cost);
  return static_cast<std::size_t>(best - choices.begin());
}

}  // namespace harpe::lab
