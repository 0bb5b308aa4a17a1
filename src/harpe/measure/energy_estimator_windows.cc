// Edges of windows, and the difference of two.

#include <algorithm>
#include <cmath>
#include <iterator>

#include "harpe/measure/counter_grid.h"
#include "harpe/measure/energy_estimator.h"

namespace harpe {
namespace {

// What a sensor that measures seldom misses is nothing or much: wider than a normal distribution.
constexpr double kHeavyTails = 1.25;
// Standard error at an edge, as a share of the power over the averaging time.
constexpr double kHiddenByAverage = 0.1;
constexpr double kLeastVariance = 1e-6;  // counters count in mJ

double square(double x) {
  return x * x;
}

}  // namespace

std::vector<CounterEdge> EnergyEstimator::edges(Instant since) const {
  std::vector<CounterEdge> edges;
  const std::size_t first = knots_.size() - std::min(knots_.size(), kMostOnGrid);
  for (std::size_t i = first; i < knots_.size(); ++i) {
    const Knot& knot = knots_[i];
    edges.push_back(
        {knot.time, {knot.sigma}, {knot.energy}, knot.restarts, knot.earliest, knot.latest});
  }
  edges = on_their_grid(std::move(edges));
  std::erase_if(edges, [since](const CounterEdge& edge) { return edge.time < since; });
  return edges;
}

EnergyEstimator::Edge EnergyEstimator::edge(Instant time) const {
  Edge edge{.time = time, .at = power_at(time), .restarts = restarts_};
  if (knots_.empty()) return edge;
  edge.on_counter = true;
  const double inflation =
      has_power_ && compared_ > 3 && expected_ > 0 ? std::max(1.0, disagreement_ / expected_) : 1;
  edge.inflation = inflation;
  const auto after = std::ranges::upper_bound(knots_, time, {}, &Knot::time);
  if (after == knots_.begin() || after == knots_.end()) {  // beyond the steps that are known
    const Knot& knot = after == knots_.begin() ? knots_.front() : knots_.back();
    const double integral = edge.at.integral - knot.at.integral;
    edge.energy = knot.energy + scale_ * integral;
    edge.variance = inflation * (square(scale_ * edge.at.power * knot.sigma) +
                                 square(scale_) * std::abs(edge.at.variance - knot.at.variance)) +
                    square(scale_error() * integral);
    edge.bridged = knot.bridged;
    edge.knot = after == knots_.begin()
                    ? first_knot_ - 1
                    : first_knot_ + static_cast<std::int64_t>(knots_.size()) - 1;
    edge.restarts = after == knots_.begin() ? knot.restarts : restarts_;
    return edge;
  }
  const Knot& b = *after;
  const Knot& a = *std::prev(after);
  // Without power the counter alone says how much was used between its two steps.
  const double over = b.at.integral - a.at.integral;
  const double scale = !has_power_ && over > 0 ? (b.energy - a.energy) / over : scale_;
  // Forward from the step before, backward from the step after; each as good as its step's time
  // and the power in between.
  const double total = std::max(b.at.variance - a.at.variance, 0.0);
  const double part = std::clamp(edge.at.variance - a.at.variance, 0.0, total);
  const double forward =
      inflation * (square(scale * a.at.power * a.sigma) + square(scale) * part) + kLeastVariance;
  const double backward =
      inflation * (square(scale * b.at.power * b.sigma) + square(scale) * (total - part)) +
      kLeastVariance;
  edge.residual = b.energy - a.energy - scale * over;
  edge.residual_variance = forward + backward;
  edge.energy = a.energy + scale * (edge.at.integral - a.at.integral) +
                edge.residual * forward / (forward + backward);
  edge.energy = std::clamp(edge.energy, a.energy, b.energy);
  edge.variance = forward * backward / (forward + backward);
  const double share = (time - a.time) / (b.time - a.time);
  edge.bridged = a.bridged + share * (b.bridged - a.bridged);
  edge.restarts = a.restarts;
  edge.knot = first_knot_ + (std::prev(after) - knots_.begin());
  return edge;
}

EnergyEstimate EnergyEstimator::difference(const Edge& begin, const Edge& end) const {
  EnergyEstimate result{.time = end.time - begin.time,
                        .unobserved = {end.at.unobserved - begin.at.unobserved}};
  double variance = 0;
  const double power_variance = std::max(0.0, end.at.variance - begin.at.variance);
  const bool by_counter = !distrusted_ && begin.on_counter && end.on_counter;
  // A counter that was not seen to move tells nothing yet, and nothing else does.
  if (!has_power_ && knots_.size() < 2) return result;
  if (!by_counter) {
    result.energy = {end.at.integral - begin.at.integral};
    variance = power_variance;
    result.source = !has_power_                       ? EnergySource::kNone
                    : options_.power_window.value > 0 ? EnergySource::kAveragePower
                                                      : EnergySource::kPower;
    if (options_.power_window.value > 0) {
      // What happened within the time that the sensor averages over is hidden, at both edges.
      variance += square(kHiddenByAverage * options_.power_window.value) *
                  (square(begin.at.power) + square(end.at.power));
    }
    if (!has_power_) return result;
  } else if (begin.knot == end.knot) {
    const double integral = end.at.integral - begin.at.integral;
    variance = end.inflation * square(scale_) * power_variance + square(scale_error() * integral);
    double energy = scale_ * integral;
    if (end.residual_variance > 0) {  // what the whole step was off by, this part's share of it
      const double share = std::min(1.0, variance / end.residual_variance);
      energy += share * end.residual;
      variance *= 1 - share;
    }
    result.energy = {energy};
    result.source = has_power_ ? EnergySource::kPowerInOneStep : EnergySource::kCounter;
  } else {
    result.energy = {end.energy - begin.energy};
    variance = begin.variance + end.variance + std::max(0.0, end.bridged - begin.bridged);
    result.source = has_power_ ? EnergySource::kCounterAndPower : EnergySource::kCounter;
  }
  if (!has_power_) {
    // Each edge lies somewhere within a step; over a few steps their height is not known well.
    const double step = scale_ * steps_.period().value;
    const bool is_short = result.time.value < kShortSpan * steps_.period().value;
    variance = std::max(variance, square(step) / 6 * (is_short ? 4 : 1));
  }
  result.energy.value = std::max(0.0, result.energy.value);
  // Few steps tell little of how well counter and power agree: near to Student's t.
  const double few = by_counter && has_power_ ? 1 + 1.0 / (compared_ + 1) : 1;
  result.error = {kNinetyFivePercent * few * (repeating_ ? kHeavyTails : 1) * std::sqrt(variance)};
  result.sensor_error = result.energy * options_.accuracy.share;
  if (by_counter) result.restarts = end.restarts - begin.restarts;
  if (has_power_ && compared_ >= 3) result.counter_per_power = scale_;
  return result;
}

EnergyEstimate EnergyEstimator::between(Instant begin, Instant end) const {
  if (!newest_ || end < begin) return {};
  return difference(edge(begin), edge(end));
}

int EnergyEstimator::open(Instant begin) {
  windows_[next_window_] = {.begin = begin, .edge = std::nullopt};
  return next_window_++;
}

EnergyEstimate EnergyEstimator::so_far(int window, Instant end) const {
  const auto found = windows_.find(window);
  if (found == windows_.end() || !newest_ || end < found->second.begin) return {};
  return difference(found->second.edge ? *found->second.edge : edge(found->second.begin),
                    edge(end));
}

EnergyEstimate EnergyEstimator::close(int window, Instant end) {
  const EnergyEstimate result = so_far(window, end);
  windows_.erase(window);
  return result;
}

}  // namespace harpe
