#include "harpe/carbon/carbon/combination.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace harpe::carbon {
namespace {

constexpr std::size_t kFewestErrorDays = 1;
constexpr double kHalfLife = 30;   // days, of an error's weight
constexpr double kSharpness = 10;  // how fast a weight falls with error

}  // namespace

Combination::Combination(std::vector<std::unique_ptr<Forecaster>> members, const ForecastGrid& grid)
    : members_(std::move(members)),
      grid_(grid),
      decay_(std::exp2(-1 / (kHalfLife * static_cast<double>(grid.slots_per_day)))),
      issues_(grid.horizon, Issue{.ahead = std::vector<std::vector<double>>(members_.size())}),
      scores_(members_.size(), std::vector<Score>(grid.horizon)) {}

void Combination::observe(const LogHistory& history) {
  if (history.known(history.size() - 1)) score(history);
  Issue& issue = issues_[steps_++ % grid_.horizon];
  for (std::size_t m = 0; m < members_.size(); ++m) {
    members_[m]->observe(history);
    issue.ahead[m].resize(grid_.horizon);
    if (!members_[m]->forecast(history, issue.ahead[m])) issue.ahead[m].clear();
  }
}

void Combination::score(const LogHistory& history) {
  const double value = history[history.size() - 1];
  for (std::size_t k = 0; k < std::min(grid_.horizon, steps_); ++k) {
    const Issue& issue = issues_[(steps_ - 1 - k) % grid_.horizon];
    for (std::size_t m = 0; m < members_.size(); ++m) {
      if (issue.ahead[m].empty()) continue;
      Score& one = scores_[m][k];
      one.loss = decay_ * one.loss + std::abs(issue.ahead[m][k] - value);
      one.weight = decay_ * one.weight + 1;
      ++one.errors;
    }
  }
}

bool Combination::counts(std::size_t member, std::size_t k) const {
  return scores_[member][k].errors >= kFewestErrorDays * grid_.slots_per_day;
}

double Combination::weighed(const std::vector<std::vector<double>>& ahead, std::size_t k) const {
  const auto loss = [&](std::size_t m) {
    return scores_[m][k].loss / scores_[m][k].weight + 1e-12;
  };
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t m = 0; m < members_.size(); ++m) {
    if (!ahead[m].empty() && counts(m, k)) best = std::min(best, loss(m));
  }
  double sum = 0, weights = 0;
  for (std::size_t m = 0; m < members_.size(); ++m) {
    if (ahead[m].empty() || !counts(m, k)) continue;
    const double weight = std::exp(-kSharpness * (loss(m) / best - 1));
    sum += weight * ahead[m][k];
    weights += weight;
  }
  return sum / weights;
}

bool Combination::forecast(const LogHistory& /*history*/, std::span<double> ahead) {
  if (steps_ == 0) return false;
  const Issue& issue = issues_[(steps_ - 1) % grid_.horizon];
  const auto first = static_cast<std::size_t>(
      std::ranges::find_if(issue.ahead, [](const auto& one) { return !one.empty(); }) -
      issue.ahead.begin());
  if (first == members_.size()) return false;
  for (std::size_t k = 0; k < ahead.size(); ++k) {
    ahead[k] = counts(first, k) ? weighed(issue.ahead, k) : issue.ahead[first][k];
  }
  return true;
}

std::span<const double> Combination::member_forecast(std::size_t member) const {
  if (steps_ == 0) return {};
  return issues_[(steps_ - 1) % grid_.horizon].ahead[member];
}

}  // namespace harpe::carbon
