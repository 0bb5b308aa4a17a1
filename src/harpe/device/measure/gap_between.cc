#include "harpe/device/measure/gap_between.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "harpe/base/statistics.h"

namespace harpe::device {
namespace {

// Limits on the readings used around a gap: numbers of steps and samples; the least time between
// samples and the largest distance from the gap, in periods of the counter.
constexpr std::size_t kStepsBeside = 6;
constexpr std::size_t kSamplesBeside = 6, kSamplesWithin = 4;
constexpr double kApart = 0.2, kFarthest = 12;
constexpr double kInstant = 0.001;     // s: window of a sensor that measures at every reading
constexpr double kSampleNoise = 0.01;  // relative
constexpr double kLeastNoise = 0.1;    // W
// A normal distribution approximates the range of power from the lowest seen to the highest
// possible: its deviation as a share of the range and of the mean. If the device does not report
// the highest possible power, it is this multiple of the highest seen.
constexpr double kRangeDeviation = 0.4, kLeastDeviation = 0.3, kBeyondSeen = 1.3;

using Knot = CounterHistory::Knot;

/// Returns the independent error of a step's time, with the power around it.
StepTime step_time(const Knot& knot, double power) {
  if (knot.on_line) return {.jitter = knot.own, .power = power};
  return {.fixed = knot.own, .power = power};
}

/// The knots around a gap, in order, without most knots of uncertain time.
struct Chain {
  std::vector<const Knot*> knots;
  std::size_t first = 0, last = 0;  ///< the gap: from `first` to the knot after `last`
  bool is_open() const { return last + 1 == knots.size(); }
};

class GapReader {
 public:
  GapReader(const CounterHistory& counter, const SampledPower& power)
      : counter_(counter), power_(power), scale_(counter.scale()) {}

  StepGap read(std::ptrdiff_t first, std::ptrdiff_t last, Instant until, Watts highest_power) const;

 private:
  Chain chain_around(std::ptrdiff_t first, std::ptrdiff_t last) const;
  Instant add_steps_beside(StepGap& gap, const Chain& chain, int step, bool left) const;
  SpanReading sample_reading(const SampledPower::Point& point, Instant zero) const;
  void add_samples_beside(StepGap& gap, Instant zero, Instant border, Instant farthest) const;
  void add_samples_within(StepGap& gap, Instant zero) const;
  void set_range(StepGap& gap, Watts highest_power) const;

  const CounterHistory& counter_;
  const SampledPower& power_;
  double scale_;  ///< counter joules per power joule
};

Chain GapReader::chain_around(std::ptrdiff_t first, std::ptrdiff_t last) const {
  Chain chain;
  const auto at = [&](std::ptrdiff_t i) { return &counter_.knot(i); };
  for (std::ptrdiff_t i = first; i >= 0 && chain.knots.size() <= kStepsBeside;
       i = counter_.usable_knot(i - 1, -1)) {
    chain.knots.push_back(at(i));
  }
  std::ranges::reverse(chain.knots);
  chain.first = chain.last = chain.knots.size() - 1;
  const auto count = static_cast<std::ptrdiff_t>(counter_.knots().size());
  for (std::ptrdiff_t i = counter_.usable_knot(first + 1, 1); i < count;
       i = counter_.usable_knot(i + 1, 1)) {
    chain.knots.push_back(at(i));
    if (i <= last) chain.last = chain.knots.size() - 1;
    if (chain.knots.size() > chain.last + 1 + kStepsBeside) break;
  }
  return chain;
}

/// Adds the counter's rises on one side of the gap, from step number `step` outwards. Returns the
/// end of the farthest rise, or the instant one period beside the gap if there is none.
Instant GapReader::add_steps_beside(StepGap& gap, const Chain& chain, int step, bool left) const {
  const Instant zero = chain.knots[chain.first]->time;
  const double period = gap.prior.period;
  auto at = static_cast<std::ptrdiff_t>(left ? chain.first : chain.last + 1);
  const Instant border = chain.knots[static_cast<std::size_t>(at)]->time;
  Instant farthest = border + Seconds{left ? -period : period};
  std::vector<SpanReading>& side = left ? gap.left : gap.right;
  while (true) {
    const std::ptrdiff_t next = left ? at - 1 : at + 1;
    if (next < 0 || next >= std::ssize(chain.knots)) break;
    const Knot &a = *chain.knots[static_cast<std::size_t>(std::min(at, next))],
               &b = *chain.knots[static_cast<std::size_t>(std::max(at, next))];
    const Knot& other = left ? a : b;
    const double length = (b.time - a.time).value;
    const double away = std::abs((other.time - border).value);
    if (a.restarts != b.restarts || length < kInstant || away > kFarthest * period) break;
    const double power = (b.energy - a.energy) / length;
    // The power around a step is the mean of both sides.
    double& around = gap.steps[static_cast<std::size_t>(step)].power;
    around = side.empty() ? power : (around + power) / 2;
    if (side.empty()) (left ? gap.left_level : gap.right_level) = std::max(1.0, power);
    const auto number = static_cast<int>(gap.steps.size());
    gap.steps.push_back(step_time(other, power));
    side.push_back({.span = {.from = (a.time - zero).value,
                             .to = (b.time - zero).value,
                             .from_step = left ? number : step,
                             .to_step = left ? step : number},
                    .energy = b.energy - a.energy});
    step = number;
    at = next;
    farthest = other.time;
  }
  return farthest;
}

/// Returns the reading of a sample of the power sensor, in seconds since `zero`.
SpanReading GapReader::sample_reading(const SampledPower::Point& point, Instant zero) const {
  const double window = std::max(point.window, kInstant), power = scale_ * point.power;
  const double to = (point.time - zero).value;
  const double noise = square(kSampleNoise * power) + square(kLeastNoise);
  return {.span = {.from = to - window, .to = to},
          .energy = power * window,
          .variance = noise * square(window),
          .is_sample = true,
          .blur = point.blur,
          .before = std::max(0.0, point.longest - window)};
}

/// Adds samples on one side of the gap, from `border` to `farthest`.
void GapReader::add_samples_beside(StepGap& gap, Instant zero, Instant border,
                                   Instant farthest) const {
  const bool left = farthest < border;
  std::vector<SpanReading>& side = left ? gap.left : gap.right;
  const double near = (border - zero).value, far = (farthest - zero).value;
  const double apart = kApart * gap.prior.period;
  double bound = near;
  std::size_t samples = 0;
  const auto consider = [&](const SampledPower::Point& point) {
    if (point.repeats) return true;
    const SpanReading sample = sample_reading(point, zero);
    const double from = sample.span.from - sample.blur, to = sample.span.to + sample.blur;
    if (left ? from < far : to > far) return false;
    if (left ? to > bound : from < bound) return true;
    side.push_back(sample);
    bound = left ? sample.span.from - apart : sample.span.to + apart;
    return ++samples < kSamplesBeside;
  };
  const auto begin =
      std::ranges::lower_bound(power_.points(), border, {}, &SampledPower::Point::time);
  if (left) {
    for (auto point = std::make_reverse_iterator(begin); point != power_.points().rend(); ++point) {
      if (!consider(*point)) break;
    }
  } else {
    for (auto point = begin; point != power_.points().end(); ++point) {
      if (!consider(*point)) break;
    }
  }
  std::ranges::sort(side, {}, [left](const SpanReading& one) {
    return std::pair(left ? -one.span.to : one.span.from, one.is_sample);
  });
}

/// Adds samples within the gap.
void GapReader::add_samples_within(StepGap& gap, Instant zero) const {
  // A few samples spread over a long gap represent all of it.
  const double apart =
      std::max(kApart * gap.prior.period, gap.length / static_cast<double>(kSamplesWithin + 1));
  double bound = 0;
  for (auto point = std::ranges::lower_bound(power_.points(), zero, {}, &SampledPower::Point::time);
       point != power_.points().end() && gap.samples.size() < kSamplesWithin; ++point) {
    if (point->repeats) continue;
    const SpanReading sample = sample_reading(*point, zero);
    if (sample.span.to + sample.blur > gap.length) break;
    if (sample.span.from - sample.blur < bound) continue;
    gap.samples.push_back(sample);
    bound = sample.span.to + apart;
  }
  const double scale = square(gap.prior.common_scale);
  for (SpanReading& sample : gap.samples) sample.variance += scale * square(sample.energy);
}

/// Sets the range of powers that are possible in the gap.
void GapReader::set_range(StepGap& gap, Watts highest_power) const {
  double lowest = scale_ * power_.highest();
  double highest = highest_power.value;
  if (highest <= 0) highest = kBeyondSeen * lowest;
  for (const auto* readings : {&gap.left, &gap.right, &gap.rises, &gap.samples}) {
    for (const SpanReading& reading : *readings) {
      const double power = reading.energy / (reading.span.to - reading.span.from);
      lowest = std::min(lowest, power);
      highest = std::max(highest, power);
    }
  }
  gap.prior.mean = (lowest + highest) / 2;
  gap.prior.deviation =
      std::max({kRangeDeviation * (highest - lowest), kLeastDeviation * gap.prior.mean, 1.0});
  if (gap.left_level <= 0) gap.left_level = gap.prior.mean;
  if (gap.right_level <= 0) gap.right_level = gap.prior.mean;
}

StepGap GapReader::read(std::ptrdiff_t first, std::ptrdiff_t last, Instant until,
                        Watts highest_power) const {
  const Chain chain = chain_around(first, last);
  const Instant zero = chain.knots[chain.first]->time;
  StepGap gap;
  gap.is_open = chain.is_open();
  const Instant end = gap.is_open ? until : chain.knots[chain.last + 1]->time;
  gap.length = std::max((end - zero).value, kInstant);
  gap.prior = {.period = counter_.period().value,
               .common_scale = counter_.scale_error(power_) / scale_};
  // The first known step may have no neighbour that shows the power around it.
  gap.steps.push_back(
      step_time(*chain.knots[chain.first], scale_ * chain.knots[chain.first]->at.power));
  int step = 0;
  for (std::size_t i = chain.first; i < chain.last + (gap.is_open ? 0 : 1); ++i) {
    const Knot &a = *chain.knots[i], &b = *chain.knots[i + 1];
    const double from = (a.time - zero).value, to = (b.time - zero).value;
    const double energy = b.energy - a.energy;
    gap.rises.push_back({.span = {.from = from, .to = to, .from_step = step, .to_step = step + 1},
                         .energy = energy,
                         .variance = b.bridged - a.bridged});
    gap.steps.push_back(step_time(b, energy / std::max(to - from, kInstant)));
    step += 1;
  }
  add_samples_beside(gap, zero, zero, add_steps_beside(gap, chain, 0, true));
  if (!gap.is_open) {
    gap.right_step = step;
    add_samples_beside(gap, zero, end, add_steps_beside(gap, chain, step, false));
  }
  add_samples_within(gap, zero);
  set_range(gap, highest_power);
  return gap;
}

}  // namespace

StepGap gap_between(const CounterHistory& counter, const SampledPower& power, std::ptrdiff_t first,
                    std::ptrdiff_t last, Instant until, Watts highest_power) {
  return GapReader(counter, power).read(first, last, until, highest_power);
}

}  // namespace harpe::device
