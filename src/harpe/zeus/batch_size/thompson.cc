#include "harpe/zeus/batch_size/thompson.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include "harpe/base/check.h"
#include "harpe/base/hashed_random.h"

namespace harpe::zeus {

std::uint64_t Draws::bits() {
  return mixed(static_cast<std::uint64_t>(seed), 0, static_cast<std::uint64_t>(count++));
}

double Draws::uniform() {
  return harpe::uniform(bits());
}

double Draws::normal() {
  // Box-Muller. The second number is discarded, so that a count is the only state.
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

std::vector<std::size_t> Draws::permutation(std::size_t size) {
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t left = size; left > 1; --left) {
    const auto chosen = static_cast<std::size_t>(uniform() * static_cast<double>(left));
    std::swap(order[left - 1], order[chosen]);
  }
  return order;
}

Belief posterior(std::span<const double> rewards, double prior_mean, double prior_precision) {
  if (rewards.empty()) return {.mean = prior_mean, .precision = prior_precision};
  const auto count = static_cast<double>(rewards.size());
  const double sum = std::accumulate(rewards.begin(), rewards.end(), 0.0);
  double squares = 0;
  for (const double reward : rewards) squares += (reward - sum / count) * (reward - sum / count);
  const double variance = squares / count;
  Belief belief{.observations = static_cast<int>(rewards.size())};
  if (variance == 0) {
    belief.mean = sum / count;
    belief.precision = std::numeric_limits<double>::infinity();
  } else {
    belief.precision = prior_precision + count / variance;
    belief.mean = (prior_precision * prior_mean + sum / variance) / belief.precision;
  }
  return belief;
}

std::size_t thompson_choice(std::span<const Belief> beliefs, int explorations, Draws& draws) {
  HARPE_CHECK(!beliefs.empty(), "there is a batch size to choose");
  for (const std::size_t one : draws.permutation(beliefs.size())) {
    // A belief without any information allows no draw.
    if (beliefs[one].observations < explorations || beliefs[one].precision == 0) return one;
  }
  std::size_t best = 0;
  double largest = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < beliefs.size(); ++i) {
    const double draw = beliefs[i].mean + draws.normal() / std::sqrt(beliefs[i].precision);
    if (draw > largest) {
      largest = draw;
      best = i;
    }
  }
  return best;
}

}  // namespace harpe::zeus
