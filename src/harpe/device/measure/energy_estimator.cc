#include "harpe/device/measure/energy_estimator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "harpe/base/statistics.h"
#include "harpe/device/measure/counter_grid.h"
#include "harpe/device/measure/gap_between.h"

namespace harpe {
namespace {

// A sensor that measures rarely misses either nothing or much, so the tails of its error are
// heavier than those of a normal distribution.
constexpr double kHeavyTails = 1.25;
// Standard error at an edge, as a share of the power over the averaging time.
constexpr double kHiddenByAverage = 0.1;
constexpr double kLeastWindowVariance = 1e-6;  // counters count in mJ
constexpr double kSteps = 2;  // steps of the counter after an instant that improve its energy
constexpr std::size_t kMostOnGrid = 300;  // largest number of steps that edges() returns
constexpr double kLongestSettling = 1;    // s
constexpr double kHeld = 0.95;            // probability within error bars
// In windows shorter than two steps, the weights of explanations depend more on the model than on
// readings, so the error bar also includes less likely explanations.
constexpr double kHeldInShort = 0.99;
constexpr double kUnknownBefore = 0.6;  // relative error of power before the first reading
// Number of power measurements that makes a gap between two steps long, and the probability that
// they are its best explanation: chosen so that the bars of command_coverage_test hold.
constexpr double kMeasurementsInLong = 2.5, kByPower = 0.15;

/// Probability that power changes within a step if no work began or ended there.
constexpr double kChangeAtLook = 0.05;

}  // namespace

std::string_view source_name(EnergySource source) {
  constexpr std::array<std::string_view, 6> kNames{"none",
                                                   "counter",
                                                   "counter, edges by power",
                                                   "power within a counter step",
                                                   "integrated power",
                                                   "integrated average power"};
  return kNames.at(static_cast<std::size_t>(source));
}

device::EnergyEstimator::EnergyEstimator(device::EstimatorOptions options)
    : options_(std::move(options)),
      power_(options_.longest_interval),
      counter_(options_.counter_step, options_.longest_interval) {}

void device::EnergyEstimator::describe(Seconds power_window, Watts highest_power) {
  options_.power_window = power_window;
  options_.highest_power = highest_power;
}

bool device::EnergyEstimator::counter_due(Instant now, Seconds interval) const {
  return counter_.is_due(now, interval);
}

void device::EnergyEstimator::add(const device::EnergySample& sample) {
  if (newest_ && sample.time < *newest_) return;
  if (!first_) first_ = sample.time;
  newest_ = sample.time;
  const bool power_is_sound =
      sample.power && std::isfinite(sample.power->value) && sample.power->value >= 0;
  // A sensor whose first value follows readings of the counter is ignored.
  if (power_is_sound && (power_.has_sensor() || counter_.empty())) {
    // An average over a window describes the middle of the window best.
    power_.add(sample.time + options_.power_window * -0.5, sample.power->value);
  } else if (!power_.has_sensor() && sample.counter) {
    power_.add_without_sensor(sample.time);
  }
  if (sample.counter)
    counter_.add(sample.time, sample.spread, *sample.counter, sample.time - *first_, power_);
  const auto& points = power_.points();
  if (points.size() > 64 && points.front().time + options_.history * 2 < *newest_)
    forget(*newest_ + -options_.history);
}

void device::EnergyEstimator::forget(Instant before) {
  for (auto& [handle, window] : windows_) {
    if (!window.edge && window.begin <= before)
      window.edge = edge(window.begin, device::WindowEnd::kOfWork);
  }
  power_.forget(before);
  counter_.forget(before);
}

device::StepGap device::EnergyEstimator::gap_around(std::ptrdiff_t first, std::ptrdiff_t last,
                                                    Instant until, device::WindowEnd kind) const {
  device::StepGap gap = device::gap_between(counter_, power_, first, last,
                                            std::max(until, *newest_), options_.highest_power);
  if (kind == device::WindowEnd::kLook) {
    gap.change_at_edge = 0;
    gap.change_within = kChangeAtLook;
  }
  return gap;
}

std::vector<CounterEdge> device::EnergyEstimator::edges(Instant since) const {
  std::vector<CounterEdge> edges;
  const std::size_t first =
      counter_.knots().size() - std::min(counter_.knots().size(), kMostOnGrid);
  for (std::size_t i = first; i < counter_.knots().size(); ++i) {
    const Knot& knot = counter_.knots()[i];
    edges.push_back(
        {knot.time, {knot.sigma}, {knot.energy}, knot.restarts, knot.earliest, knot.latest});
  }
  edges = device::on_their_grid(std::move(edges));
  std::erase_if(edges, [since](const CounterEdge& edge) { return edge.time < since; });
  return edges;
}

bool device::EnergyEstimator::settled(Instant at) const {
  if (!newest_) return false;
  if ((*newest_ - at).value >= kLongestSettling) return true;
  int after = 0;
  for (auto knot = counter_.knots().rbegin();
       knot != counter_.knots().rend() && knot->earliest >= at; ++knot)
    ++after;
  return after >= kSteps;
}

/// Returns the energy at an edge by power, forward from the step before and backward from the step
/// after, weighted by the accuracy of the steps' times and of the power in between.
device::Explanation device::EnergyEstimator::by_neighbours(const Edge& edge) const {
  const double inflation = counter_.inflation(power_);
  const auto after = std::ranges::upper_bound(counter_.knots(), edge.time, {}, &Knot::time);
  if (after == counter_.knots().begin() ||
      after == counter_.knots().end()) {  // before the first or after the last step
    const Knot& knot =
        after == counter_.knots().begin() ? counter_.knots().front() : counter_.knots().back();
    const double integral = edge.at.integral - knot.at.integral;
    return {.weight = 1,
            .energy = knot.energy + counter_.scale() * integral,
            .variance = inflation * (square(counter_.scale() * edge.at.power * knot.sigma) +
                                     square(counter_.scale()) *
                                         std::abs(edge.at.variance - knot.at.variance)) +
                        square(counter_.scale_error(power_) * integral)};
  }
  const Knot& b = *after;
  const Knot& a = *std::prev(after);
  const double over = b.at.integral - a.at.integral;
  // Without a power sensor, the counter alone determines the energy between its two steps.
  const double scale =
      !power_.has_sensor() && over > 0 ? (b.energy - a.energy) / over : counter_.scale();
  const double total = std::max(b.at.variance - a.at.variance, 0.0);
  const double part = std::clamp(edge.at.variance - a.at.variance, 0.0, total);
  const double forward = inflation * (square(scale * a.at.power * a.sigma) + square(scale) * part) +
                         kLeastWindowVariance;
  const double backward =
      inflation * (square(scale * b.at.power * b.sigma) + square(scale) * (total - part)) +
      kLeastWindowVariance;
  const double residual = b.energy - a.energy - scale * over;
  const double energy = a.energy + scale * (edge.at.integral - a.at.integral) +
                        residual * forward / (forward + backward);
  return {.weight = 1,
          .energy = std::clamp(energy, a.energy, b.energy),
          .variance = forward * backward / (forward + backward)};
}

/// Returns the integral of power within one step of the counter, corrected by its share of the
/// difference between the step's energy and power.
device::Explanation device::EnergyEstimator::by_one_step(const Edge& begin, const Edge& end) const {
  const double integral = end.at.integral - begin.at.integral;
  double energy = counter_.scale() * integral;
  double variance = counter_.inflation(power_) * square(counter_.scale()) *
                        std::max(0.0, end.at.variance - begin.at.variance) +
                    square(counter_.scale_error(power_) * integral) + kLeastWindowVariance;
  const auto knot = static_cast<std::size_t>(begin.knot - counter_.first_number());
  if (begin.knot >= counter_.first_number() && knot + 1 < counter_.knots().size()) {
    const Knot &a = counter_.knots()[knot], &b = counter_.knots()[knot + 1];
    const double over = counter_.scale() * (b.at.integral - a.at.integral);
    const double unsure = counter_.inflation(power_) * square(counter_.scale()) *
                              (square(a.at.power * a.sigma) + square(b.at.power * b.sigma) +
                               std::max(0.0, b.at.variance - a.at.variance)) +
                          2 * kLeastWindowVariance;
    const double share = std::min(1.0, variance / unsure);
    energy += share * (b.energy - a.energy - over);
    variance *= 1 - share;
  }
  return {.weight = 1, .energy = energy, .variance = variance};
}

/// Returns the variance of the energy between two instants that the counter does not cover yet.
/// Power may have changed between samples as much as it did recently.
double device::EnergyEstimator::changes_unseen(const device::SampledPower::Integral& from,
                                               const device::SampledPower::Integral& to) const {
  return square(counter_.scale() * (power_.repeats() ? kHeavyTails : 1)) *
         std::max(0.0, to.variance - from.variance);
}

/// Returns true if power was measured several times throughout a gap.
bool device::EnergyEstimator::is_long(const device::StepGap& gap, Instant begin) const {
  const Instant end = begin + Seconds{gap.length};
  const Seconds longest{gap.length / kMeasurementsInLong};
  auto point =
      std::ranges::upper_bound(power_.points(), begin, {}, &device::SampledPower::Point::time);
  if (gap.is_open || point == power_.points().begin()) return false;
  for (; point != power_.points().end(); ++point) {
    if (point->time - std::prev(point)->time > longest) return false;
    if (point->time >= end) return true;
  }
  return false;
}

/// Adds the measured power as an explanation: within a long gap power may have changed more than
/// once, which the other explanations do not include.
void device::EnergyEstimator::add_by_power(Edge& edge) const {
  for (device::Explanation& one : edge.explanations) one.weight *= 1 - kByPower;
  device::Explanation by_power = by_neighbours(edge);
  by_power.weight = kByPower;
  by_power.power = counter_.scale() * edge.at.power;
  edge.explanations.push_back(by_power);
}

device::EnergyEstimator::Edge device::EnergyEstimator::edge(Instant time,
                                                            device::WindowEnd kind) const {
  Edge edge{.time = time, .at = power_.at(time), .restarts = counter_.restarts()};
  if (counter_.empty()) return edge;
  edge.on_counter = true;
  const std::ptrdiff_t before = counter_.knot_before(time);
  edge.knot = counter_.first_number() + before;
  const Knot& knot =
      counter_.knots()[static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, before))];
  const bool is_last = time >= counter_.knots().back().time;
  edge.restarts = is_last ? counter_.restarts() : knot.restarts;
  edge.bridged = knot.bridged;
  if (!power_.has_sensor()) {
    edge.explanations = {by_neighbours(edge)};
    return edge;
  }
  if (before < 0) {
    const double used = counter_.scale() * knot.at.power * (knot.time - time).value;
    edge.explanations = {{.weight = 1,
                          .energy = knot.energy - used,
                          .variance = square(kUnknownBefore * used) +
                                      square(counter_.scale() * knot.at.power * knot.sigma) +
                                      kLeastWindowVariance,
                          .power = counter_.scale() * knot.at.power}};
    return edge;
  }
  edge.line_variance = knot.line_variance;
  if (knot.on_line && counter_.knots().size() - static_cast<std::size_t>(before) <=
                          device::CounterSteps::kRemembered) {
    edge.number = knot.number;
  }
  const device::StepGap gap = gap_around(before, before, time, kind);
  edge.explanations = device::energy_until(gap, (time - knot.time).value);
  double unseen = gap.is_open ? changes_unseen(knot.at, edge.at) : 0;
  // Without readings before the first step, the explanations of a gap understate their variance.
  if (!gap.is_open && before == 0) unseen = changes_unseen(knot.at, counter_.knots()[1].at);
  for (device::Explanation& one : edge.explanations) {
    one.energy += knot.energy;
    one.variance += unseen;
  }
  if (is_long(gap, knot.time)) add_by_power(edge);
  return edge;
}

/// Returns all explanations of the energy between two edges by the counter.
std::vector<device::Explanation> device::EnergyEstimator::by_counter(const Edge& begin,
                                                                     const Edge& end,
                                                                     device::WindowEnd kind) const {
  const std::ptrdiff_t first = begin.knot - counter_.first_number(),
                       last = end.knot - counter_.first_number();
  const auto restarts = [&](std::ptrdiff_t i) {
    return counter_.knots()[static_cast<std::size_t>(i)].restarts;
  };
  if (power_.has_sensor() && first >= 0 && counter_.are_close(first, last) &&
      restarts(first) == restarts(last)) {
    // Both edges are in one gap, so their energies depend on the same power.
    const Knot& knot = counter_.knots()[static_cast<std::size_t>(first)];
    const device::StepGap gap = gap_around(first, last, end.time, kind);
    std::vector<device::Explanation> all =
        device::energy_within(gap, (begin.time - knot.time).value, (end.time - knot.time).value);
    const double change = gap.is_open ? 0 : gap.right_level - gap.left_level;
    const double unseen = gap.is_open ? changes_unseen(begin.at, end.at) : 0;
    for (device::Explanation& one : all)
      one.variance += square(change) * knot.line_variance + unseen;
    return all;
  }
  double together = 0;
  if (begin.number && end.number) together = counter_.common_variance(*begin.number, *end.number);
  const double bridged = std::max(0.0, end.bridged - begin.bridged);
  std::vector<device::Explanation> all;
  for (const device::Explanation& a : begin.explanations) {
    for (const device::Explanation& b : end.explanations) {
      all.push_back(
          {.weight = a.weight * b.weight,
           .energy = b.energy - a.energy,
           .variance = a.variance + b.variance + bridged + square(a.power) * begin.line_variance +
                       square(b.power) * end.line_variance - 2 * a.power * b.power * together});
    }
  }
  return all;
}

EnergyEstimate device::EnergyEstimator::by_power(const Edge& begin, const Edge& end) const {
  EnergyEstimate result;
  if (!power_.has_sensor()) return result;
  const bool averages = options_.power_window.value > 0;
  result.energy = {std::max(0.0, end.at.integral - begin.at.integral)};
  result.source = averages ? EnergySource::kAveragePower : EnergySource::kPower;
  double variance = std::max(0.0, end.at.variance - begin.at.variance);
  if (averages) {
    // Changes within the sensor's averaging time are hidden, at both edges.
    variance += square(kHiddenByAverage * options_.power_window.value) *
                (square(begin.at.power) + square(end.at.power));
  }
  result.error = {kNinetyFivePercent * (power_.repeats() ? kHeavyTails : 1) * std::sqrt(variance)};
  return result;
}

EnergyEstimate device::EnergyEstimator::difference(const Edge& begin, const Edge& end,
                                                   device::WindowEnd kind) const {
  const bool by_counter = !counter_.is_distrusted() && begin.on_counter && end.on_counter;
  EnergyEstimate result;
  if (!by_counter) {
    result = by_power(begin, end);
  } else if (power_.has_sensor() || counter_.knots().size() >= 2) {
    const device::MeanAndError summary = device::summary_of(
        this->by_counter(begin, end, kind),
        (end.time - begin.time).value < kSteps * counter_.period().value ? kHeldInShort : kHeld);
    result.energy = {std::max(0.0, summary.mean)};
    result.error = {summary.error};
    const bool one_step = begin.knot == end.knot;
    result.source = !power_.has_sensor() ? EnergySource::kCounter
                    : one_step           ? EnergySource::kPowerInOneStep
                                         : EnergySource::kCounterAndPower;
    result.restarts = end.restarts - begin.restarts;
    if (!power_.has_sensor()) {
      // Each edge is somewhere within a step; over a few steps, their height is not well known.
      const double step = counter_.scale() * counter_.period().value;
      const bool is_short = (end.time - begin.time).value <
                            device::CounterHistory::kShortSpan * counter_.period().value;
      const double least = kNinetyFivePercent * step / std::sqrt(6.0) * (is_short ? 2 : 1);
      result.error.value = std::max(result.error.value, least);
    }
  }
  result.time = end.time - begin.time;
  result.unobserved = {end.at.unobserved - begin.at.unobserved};
  result.sensor_error = result.energy * options_.accuracy.share;
  if (power_.has_sensor() && counter_.compared() >= 3) result.counter_per_power = counter_.scale();
  return result;
}

EnergyEstimate device::EnergyEstimator::quickly_between(Instant begin, Instant end) const {
  if (!newest_ || end < begin) return {};
  if (!power_.has_sensor() || counter_.is_distrusted() || counter_.empty())
    return between(begin, end);
  const auto edge_at = [this](Instant time) {
    const auto after = std::ranges::upper_bound(counter_.knots(), time, {}, &Knot::time) -
                       counter_.knots().begin();
    const Knot& knot =
        counter_.knots()[static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, after - 1))];
    return Edge{
        .time = time,
        .at = power_.at(time),
        .bridged = knot.bridged,
        .restarts = after == std::ssize(counter_.knots()) ? counter_.restarts() : knot.restarts,
        .knot = counter_.first_number() + after - 1};
  };
  const Edge a = edge_at(begin), b = edge_at(end);
  device::Explanation used;
  if (a.knot == b.knot) {
    used = by_one_step(a, b);
  } else {
    const device::Explanation first = by_neighbours(a), last = by_neighbours(b);
    used = {.energy = last.energy - first.energy,
            .variance = first.variance + last.variance + std::max(0.0, b.bridged - a.bridged)};
  }
  // After few steps, the ratio of counter and power is uncertain: close to Student's t.
  const double few = 1 + 1.0 / (counter_.compared() + 1);
  EnergyEstimate result{.time = end - begin, .unobserved = {b.at.unobserved - a.at.unobserved}};
  result.energy = {std::max(0.0, used.energy)};
  result.error = {kNinetyFivePercent * few * (power_.repeats() ? kHeavyTails : 1) *
                  std::sqrt(std::max(0.0, used.variance))};
  result.source = a.knot == b.knot ? EnergySource::kPowerInOneStep : EnergySource::kCounterAndPower;
  result.restarts = b.restarts - a.restarts;
  result.sensor_error = result.energy * options_.accuracy.share;
  if (counter_.compared() >= 3) result.counter_per_power = counter_.scale();
  return result;
}

EnergyEstimate device::EnergyEstimator::between(Instant begin, Instant end) const {
  if (!newest_ || end < begin) return {};
  return difference(edge(begin, device::WindowEnd::kOfWork), edge(end, device::WindowEnd::kOfWork),
                    device::WindowEnd::kOfWork);
}

int device::EnergyEstimator::open(Instant begin) {
  windows_[next_window_] = {.begin = begin, .edge = std::nullopt};
  return next_window_++;
}

EnergyEstimate device::EnergyEstimator::so_far(int window, Instant end,
                                               device::WindowEnd kind) const {
  const auto found = windows_.find(window);
  if (found == windows_.end() || !newest_ || end < found->second.begin) return {};
  const auto& [begin, known] = found->second;
  return difference(known ? *known : edge(begin, device::WindowEnd::kOfWork), edge(end, kind),
                    kind);
}

EnergyEstimate device::EnergyEstimator::close(int window, Instant end) {
  const EnergyEstimate result = so_far(window, end, device::WindowEnd::kOfWork);
  windows_.erase(window);
  return result;
}

}  // namespace harpe
