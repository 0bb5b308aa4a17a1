#include "harpe/training/client/power_split.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "harpe/base/statistics.h"

namespace harpe::training {
namespace {

constexpr double kForgetting = 0.98;      // an iteration: chips warm up
constexpr double kRelativeNoise = 0.002;  // of the energy of an interval, beside its edges
// Standard deviations of what is expected, as shares of the power.
constexpr double kWeak = 3;            // nothing is known
constexpr double kAlike = 0.25;        // between computations at one clock
constexpr double kWaitingAlike = 0.1;  // between waiting under these assignments and those before
constexpr double kShort = 0.3;         // s: spans that some steps of a counter lie in
constexpr double kGood = 0.2;          // relative error
constexpr Seconds kMostMoved{0.1};     // that a known edge moves when later ones come
constexpr std::size_t kSize = PowerSplit::kMostClasses;

double overlap(const TimeSpan& span, Instant begin, Instant end) {
  return std::max(0.0, (std::min(span.end, end) - std::max(span.begin, begin)).value);
}

/// The inverse of a positive definite matrix of n rows, in place, by Cholesky's factors; false
/// where it is none.
bool invert(std::vector<double>& matrix, std::size_t n) {
  std::vector<double> lower(n * n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = matrix[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= lower[i * n + k] * lower[j * n + k];
      if (i == j && !(sum > 0)) return false;
      lower[i * n + j] = i == j ? std::sqrt(sum) : sum / lower[j * n + j];
    }
  }
  for (std::size_t column = 0; column < n; ++column) {
    std::vector<double> x(n, 0);
    for (std::size_t i = 0; i < n; ++i) {
      double sum = i == column ? 1 : 0;
      for (std::size_t k = 0; k < i; ++k) sum -= lower[i * n + k] * x[k];
      x[i] = sum / lower[i * n + i];
    }
    for (std::size_t i = n; i-- > 0;) {
      double sum = x[i];
      for (std::size_t k = i + 1; k < n; ++k) sum -= lower[k * n + i] * x[k];
      x[i] = sum / lower[i * n + i];
    }
    for (std::size_t i = 0; i < n; ++i) matrix[i * n + column] = x[i];
  }
  return true;
}

}  // namespace

std::size_t PowerSplit::index(const Class& of) {
  const auto [known, added] = classes_.try_emplace(of, classes_.size());
  return known->second;
}

void PowerSplit::add(const IterationRecord& record, std::span<const CounterEdge> edges) {
  if (version_ != record.version) {
    std::optional<double> waiting = waiting_;
    if (const auto solution = solve()) waiting = solution->power[classes_.at({-1, 0, 0})];
    *this = PowerSplit();
    if (waiting && *waiting > 0) waiting_ = waiting;
    version_ = record.version;
    times_times_.assign(kSize * kSize, 0);
    times_energy_.assign(kSize, 0);
    return;
  }
  if (too_many_ || record.damaged) {
    known_since_.reset();
    return;
  }
  for (double& sum : times_times_) sum *= kForgetting;
  for (double& sum : times_energy_) sum *= kForgetting;
  for (double* sum : {&energy_energy_, &intervals_, &energy_, &time_}) *sum *= kForgetting;
  // Intervals lie across the borders of iterations.
  if (!known_since_ || *known_since_ < record.span.begin + -kBefore) {
    known_since_ = record.span.begin;
    instructions_.clear();
  }
  instructions_.insert(instructions_.end(), record.instructions.begin(), record.instructions.end());
  for (std::size_t i = 1; i < edges.size(); ++i) {
    const CounterEdge &begin = edges[i - 1], &end = edges[i];
    // When an edge came is estimated anew as more come; what the counter said there stays.
    const bool is_used = used_ && std::pair(begin.restarts, begin.energy.value) <
                                      std::pair(used_->restarts, used_->energy.value);
    const bool is_known = begin.time >= *known_since_ && end.time <= record.span.end;
    if (is_used || !is_known || begin.restarts != end.restarts) continue;
    add_interval(begin, end, instructions_);
    used_ = end;
  }
  if (!used_) return;
  known_since_ = std::max(*known_since_, used_->time + -kMostMoved);
  std::erase_if(instructions_,
                [this](const TimedInstruction& one) { return one.span.end < *known_since_; });
}

void PowerSplit::add_interval(const CounterEdge& from, const CounterEdge& to,
                              std::span<const TimedInstruction> instructions) {
  const double length = (to.time - from.time).value;
  const double energy = (to.energy - from.energy).value;
  if (!(length > 0) || !(energy >= 0)) return;
  std::vector<double> times(kSize, 0);
  double waiting = length;
  for (const TimedInstruction& one : instructions) {
    const double time = overlap(one.span, from.time, to.time);
    if (time <= 0) continue;
    const std::size_t at = index({static_cast<int>(one.kind), one.chunk, one.clock.value});
    if (at >= kSize) {
      too_many_ = true;
      return;
    }
    times[at] += time;
    waiting -= time;
  }
  const std::size_t at = index({-1, 0, 0});
  if (at >= kSize) {
    too_many_ = true;
    return;
  }
  times[at] += std::max(0.0, waiting);
  // An edge that is off by some milliseconds moves as much energy as power differs around it.
  const double edges = std::hypot(from.sigma.value, to.sigma.value) * energy / length;
  const double weight = 1 / (square(edges) + square(kRelativeNoise * energy) + 1e-6);
  for (std::size_t i = 0; i < kSize; ++i) {
    if (times[i] == 0) continue;
    for (std::size_t j = 0; j < kSize; ++j)
      times_times_[i * kSize + j] += weight * times[i] * times[j];
    times_energy_[i] += weight * times[i] * energy;
  }
  energy_energy_ += weight * square(energy);
  intervals_ += 1;
  energy_ += energy;
  time_ += length;
}

void PowerSplit::expect(std::vector<double>& matrix, std::vector<double>& right) const {
  const std::size_t n = classes_.size();
  const double mean = energy_ / time_;
  const double alike = 1 / square(kAlike * mean);
  for (const auto& [one, i] : classes_) {
    const bool waits = std::get<0>(one) < 0;
    const double expected = waits && waiting_ ? *waiting_ : mean;
    const double pull = 1 / square(expected * (waits && waiting_ ? kWaitingAlike : kWeak));
    matrix[i * n + i] += pull;
    right[i] += pull * expected;
    for (const auto& [other, j] : classes_) {
      if (i == j || waits || std::get<0>(other) < 0 || std::get<2>(one) != std::get<2>(other)) {
        continue;
      }
      matrix[i * n + i] += alike;
      matrix[i * n + j] -= alike;
    }
  }
}

std::optional<PowerSplit::Solution> PowerSplit::solve() const {
  const std::size_t n = classes_.size();
  if (too_many_ || n == 0 || !(time_ > 0) || !(energy_ > 0)) return std::nullopt;
  if (intervals_ < 1.5 * static_cast<double>(n) + 2) return std::nullopt;
  Solution solution{std::vector<double>(n, 0), std::vector<double>(n * n)};
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      solution.covariance[i * n + j] = times_times_[i * kSize + j];
    }
  }
  std::vector<double> right(times_energy_.begin(),
                            times_energy_.begin() + static_cast<std::ptrdiff_t>(n));
  expect(solution.covariance, right);
  if (!invert(solution.covariance, n)) return std::nullopt;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      solution.power[i] += solution.covariance[i * n + j] * right[j];
    }
  }
  // Weighted squares of the residuals, which should be one an interval.
  double squares = energy_energy_;
  for (std::size_t i = 0; i < n; ++i) {
    squares -= 2 * solution.power[i] * times_energy_[i];
    for (std::size_t j = 0; j < n; ++j) {
      squares += solution.power[i] * times_times_[i * kSize + j] * solution.power[j];
    }
  }
  const double freedom = std::max(1.0, intervals_ - static_cast<double>(n));
  const double inflation = std::max(1.0, squares / freedom);
  for (double& entry : solution.covariance) entry *= inflation;
  return solution;
}

void PowerSplit::refine(const IterationRecord& record, IterationReport& report) const {
  if (version_ != record.version) return;
  const auto solution = solve();
  if (!solution) return;
  const std::size_t n = classes_.size();
  for (InstructionTotals& totals : report.instructions) {
    std::vector<double> times(n, 0);
    bool known = true;
    for (const TimedInstruction& one : record.instructions) {
      if (one.kind != totals.kind || one.chunk != totals.chunk) continue;
      const auto of = classes_.find({static_cast<int>(one.kind), one.chunk, one.clock.value});
      known = known && of != classes_.end();
      if (known) times[of->second] += (one.span.end - one.span.begin).value;
    }
    if (!known) continue;
    double energy = 0, variance = 0;
    for (std::size_t i = 0; i < n; ++i) {
      energy += times[i] * solution->power[i];
      for (std::size_t j = 0; j < n; ++j) {
        variance += times[i] * solution->covariance[i * n + j] * times[j];
      }
    }
    const double error = kNinetyFivePercent * std::sqrt(std::max(0.0, variance));
    // Power sensors that see a quarter of the time claim to know more of short spans than they do.
    const bool is_short = totals.time.value < kShort * totals.count && error < kGood * energy;
    const bool better =
        std::isnan(totals.energy.value) || error < totals.energy_error.value || is_short;
    if (!better || !std::isfinite(energy) || !std::isfinite(error)) continue;
    totals.energy = {energy};
    totals.energy_error = {error};
  }
}

}  // namespace harpe::training
