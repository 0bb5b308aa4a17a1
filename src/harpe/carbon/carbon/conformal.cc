#include "harpe/carbon/carbon/conformal.h"

#include <algorithm>
#include <cmath>

#include "harpe/carbon/carbon/intensity_series.h"

namespace harpe::carbon {
namespace {

constexpr double kCoverage = 0.8;
constexpr double kRate = 0.03;               // falls beyond kFullRateHours
constexpr double kWindowDays = 84;           // of scores
constexpr double kScaleHalfLife = 5;         // in days, of the usual size of an error
constexpr std::size_t kMostScores = 2016;    // more scores add little and cost time
constexpr std::size_t kFewestScoreDays = 7;  // errors of the same weather are alike
constexpr double kLowestLevel = -0.05;       // below 0, the end is at the worst score
constexpr double kHighestLevel = 0.25;
constexpr double kFarthestEnd = 2;  // from the forecast, as a logarithm: a factor of 7
// The outcome of k steps ahead is known k steps late, so a level that reacts at once overshoots:
// beyond this horizon, in hours, its rate is inversely proportional to the horizon.
constexpr double kFullRateHours = 6;

/// Returns the score at a level from 0 to 1, interpolated between sorted scores; the outermost
/// score beyond that range.
double score_at(const std::vector<double>& sorted, double level) {
  const double rank = std::clamp(level, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const double part = rank - static_cast<double>(below);
  const double next = below + 1 < sorted.size() ? sorted[below + 1] : sorted[below];
  return sorted[below] + part * (next - sorted[below]);
}

}  // namespace

ConformalIntervals::ConformalIntervals(const ForecastGrid& grid)
    : grid_(grid),
      share_((1 - kCoverage) / 2),
      day_decay_(std::exp2(-1 / kScaleHalfLife)),
      step_decay_(std::exp2(-1 / (kScaleHalfLife * static_cast<double>(grid.slots_per_day)))),
      window_(std::min(kMostScores, static_cast<std::size_t>(
                                        kWindowDays * static_cast<double>(grid.slots_per_day)))),
      horizons_(grid.horizon),
      issues_(grid.horizon) {
  for (Horizon& horizon : horizons_) {
    horizon.low = horizon.high = share_;
    horizon.size_at_slot.assign(grid.slots_per_day, 0);
    horizon.weight_at_slot.assign(grid.slots_per_day, 0);
  }
}

void ConformalIntervals::observe(const LogHistory& history) {
  const std::size_t newest = history.size() - 1;
  for (std::size_t k = 0; k < std::min(grid_.horizon, steps_) && history.known(newest); ++k) {
    const Issue& issue = issues_[(steps_ - 1 - k) % grid_.horizon];
    if (issue.ahead.size() <= k) continue;
    score(horizons_[k], issue, k, history[newest], history.slot(newest));
  }
  Issue& next = issues_[steps_++ % grid_.horizon];
  next.ahead.clear();
}

void ConformalIntervals::score(Horizon& horizon, const Issue& issue, std::size_t k, double value,
                               std::size_t slot) {
  const double error = value - issue.ahead[k];
  if (!std::isnan(issue.lower[k])) {
    const double rate = rate_of(k);
    horizon.low += rate * (share_ - (value < issue.lower[k] ? 1 : 0));
    horizon.high += rate * (share_ - (value > issue.upper[k] ? 1 : 0));
    // Without limits, a level far outside the range would take as long to return.
    horizon.low = std::clamp(horizon.low, kLowestLevel, kHighestLevel);
    horizon.high = std::clamp(horizon.high, kLowestLevel, kHighestLevel);
  }
  if (issue.scale[k] > 0) {
    const double scored = error / issue.scale[k];
    std::vector<double>& sorted = horizon.sorted;
    if (horizon.ring.size() < window_) {
      horizon.ring.push_back(scored);
    } else {
      sorted.erase(std::ranges::lower_bound(sorted, horizon.ring[horizon.next]));
      horizon.ring[horizon.next] = scored;
      horizon.next = (horizon.next + 1) % window_;
    }
    sorted.insert(std::ranges::upper_bound(sorted, scored), scored);
  }
  // Neighbouring hours count for an hour, too, at half the weight.
  const std::size_t day = grid_.slots_per_day;
  const auto add = [&](std::size_t at, double weight) {
    horizon.size_at_slot[at] += weight * std::abs(error);
    horizon.weight_at_slot[at] += weight;
  };
  horizon.size_at_slot[slot] *= day_decay_;
  horizon.weight_at_slot[slot] *= day_decay_;
  add(slot, 1);
  add((slot + 1) % day, 0.5);
  add((slot + day - 1) % day, 0.5);
  horizon.size = step_decay_ * horizon.size + std::abs(error);
  horizon.weight = step_decay_ * horizon.weight + 1;
}

double ConformalIntervals::rate_of(std::size_t k) const {
  const double hours = 24 * static_cast<double>(k + 1) / static_cast<double>(grid_.slots_per_day);
  return kRate * std::min(1.0, kFullRateHours / hours);
}

double ConformalIntervals::usual_size(const Horizon& horizon, std::size_t slot) const {
  if (horizon.weight <= 0) return 0;
  const double all = horizon.size / horizon.weight;
  if (horizon.weight_at_slot[slot] < 2) return all + 1e-9;
  // An hour has few errors of its own, so this is the geometric mean with the size for all hours.
  return std::sqrt(all * horizon.size_at_slot[slot] / horizon.weight_at_slot[slot]) + 1e-9;
}

void ConformalIntervals::issue(const LogHistory& history, std::span<const double> ahead,
                               std::span<double> lower, std::span<double> upper) {
  const std::size_t newest = history.size() - 1;
  Issue& issue = issues_[(steps_ - 1) % grid_.horizon];
  issue.ahead.assign(ahead.begin(), ahead.end());
  issue.scale.resize(ahead.size());
  for (std::size_t k = 0; k < ahead.size(); ++k) {
    const Horizon& horizon = horizons_[k];
    issue.scale[k] = usual_size(horizon, history.slot(newest + k + 1));
    if (horizon.sorted.size() < kFewestScoreDays * grid_.slots_per_day) {
      lower[k] = upper[k] = kNoValue;
      continue;
    }
    const double down = score_at(horizon.sorted, horizon.low);
    const double up = score_at(horizon.sorted, 1 - horizon.high);
    const auto end = [&](double score) {
      return ahead[k] + std::clamp(score * issue.scale[k], -kFarthestEnd, kFarthestEnd);
    };
    lower[k] = end(std::min(down, up));
    upper[k] = end(std::max(down, up));
  }
  issue.lower.assign(lower.begin(), lower.end());
  issue.upper.assign(upper.begin(), upper.end());
}

}  // namespace harpe::carbon
