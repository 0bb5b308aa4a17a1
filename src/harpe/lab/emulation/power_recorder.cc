#include "harpe/lab/emulation/power_recorder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <numbers>
#include <utility>

namespace harpe::lab {
namespace {

constexpr double kLowestHertz = 0.1, kHighestHertz = 20;
constexpr Seconds kRamps[] = {Seconds{1}, Seconds{5}, Seconds{10}};
/// Least length of a part for a spectrum: ten periods of the lowest frequency.
constexpr double kShortestPart = 10 / kLowestHertz;

/// Computes the discrete Fourier transform in place (Cooley and Tukey 1965). \pre the size is a
/// power of two
void transform(std::vector<std::complex<double>>& values) {
  const std::size_t size = values.size();
  for (std::size_t i = 1, j = 0; i < size; ++i) {
    std::size_t bit = size >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(values[i], values[j]);
  }
  for (std::size_t length = 2; length <= size; length <<= 1) {
    const double angle = -2 * std::numbers::pi / static_cast<double>(length);
    for (std::size_t k = 0; k < length / 2; ++k) {
      const auto turn = std::polar(1.0, angle * static_cast<double>(k));
      for (std::size_t i = k; i < size; i += length) {
        const std::complex<double> odd = values[i + length / 2] * turn;
        values[i + length / 2] = values[i] - odd;
        values[i] += odd;
      }
    }
  }
}

PowerRamp ramp_over(std::span<const double> watts, Seconds over, std::size_t steps) {
  PowerRamp ramp{.over = over};
  for (std::size_t i = steps; i < watts.size(); ++i) {
    const double change = (watts[i] - watts[i - steps]) / over.value;
    ramp.up = std::max(ramp.up, change);
    ramp.down = std::max(ramp.down, -change);
  }
  return ramp;
}

std::vector<SpectralLine> spectrum_of(std::span<const double> watts, Seconds step, double mean) {
  const double shortest = kShortestPart / step.value;
  if (static_cast<double>(watts.size()) < shortest) return {};
  const std::size_t size =
      std::min(std::bit_floor(watts.size()), std::bit_ceil(static_cast<std::size_t>(shortest)));
  std::vector<double> window(size);
  double weight = 0;
  for (std::size_t i = 0; i < size; ++i) {
    window[i] = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) /
                                     static_cast<double>(size));
    weight += window[i];
  }
  std::vector<double> squares(size / 2);
  std::vector<std::complex<double>> values(size);
  int parts = 0;
  for (std::size_t begin = 0; begin + size <= watts.size(); begin += size / 2, ++parts) {
    for (std::size_t i = 0; i < size; ++i) values[i] = window[i] * (watts[begin + i] - mean);
    transform(values);
    for (std::size_t k = 0; k < squares.size(); ++k) squares[k] += std::norm(values[k]);
  }
  std::vector<SpectralLine> lines;
  for (std::size_t k = 1; k < squares.size(); ++k) {
    const double hertz = static_cast<double>(k) / (static_cast<double>(size) * step.value);
    if (hertz < kLowestHertz || hertz > kHighestHertz) continue;
    lines.push_back({hertz, Watts{2 * std::sqrt(squares[k] / parts) / weight}});
  }
  return lines;
}

}  // namespace

PowerRecorder::PowerRecorder(const EmulatedCluster& cluster, const Options& options)
    : cluster_(cluster), options_(options) {
  options_.pipelines = std::clamp(options_.pipelines, 0, cluster.shape().pipelines);
  const auto steps = static_cast<std::size_t>(std::ceil(options_.length / options_.step - 1e-9));
  job_.resize(steps);
  gpus_.assign(static_cast<std::size_t>(options_.pipelines) * cluster.pipeline().stages(),
               std::vector<double>(steps));
}

/// Adds a power from `begin` to `end`; a step that is partly covered gets its share.
void PowerRecorder::add_power(std::vector<double>& watts, double begin, double end,
                              double power) const {
  const double step = options_.step.value;
  const double first = begin / step;
  const double last = std::min(end / step, static_cast<double>(watts.size()));
  if (!(last > first)) return;
  const auto from = static_cast<std::size_t>(first);
  const auto to = static_cast<std::size_t>(last);
  if (from == to) {
    watts[from] += power * (last - first);
    return;
  }
  watts[from] += power * (static_cast<double>(from + 1) - first);
  for (std::size_t i = from + 1; i < to; ++i) watts[i] += power;
  if (to < watts.size()) watts[to] += power * (last - static_cast<double>(to));
}

void PowerRecorder::add_waiting(Seconds begin, Seconds time) {
  const double end = (begin + time).value;
  add_power(job_, begin.value, end, cluster_.waiting_power().value);
  const std::size_t stages = cluster_.pipeline().stages();
  for (std::size_t i = 0; i < gpus_.size(); ++i)
    add_power(gpus_[i], begin.value, end, cluster_.pipeline().blocking_power(i % stages).value);
}

void PowerRecorder::add(Seconds begin, const EmulatedCluster::TracedRun& traced) {
  const EmulatedPipeline& pipeline = cluster_.pipeline();
  const std::size_t stages = pipeline.stages();
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const double waiting = pipeline.blocking_power(stage).value;
    for (std::size_t i = pipeline.first_of_stage(stage); i < pipeline.first_of_stage(stage + 1);
         ++i) {
      const double time = traced.run.time[i];
      if (!(time > 0)) continue;
      const double end = begin.value + traced.run.end[i];
      const double more = traced.run.energy[i] / time - waiting;
      add_power(job_, end - time, end, more * traced.gpus_of_stage[stage]);
      for (const std::size_t p : traced.pipelines) {
        if (p >= static_cast<std::size_t>(options_.pipelines)) break;
        add_power(gpus_[p * stages + stage], end - time, end, more);
      }
    }
  }
}

std::vector<double> PowerRecorder::gpu(std::size_t pipeline, std::size_t stage) const {
  std::vector<double> watts = gpus_[pipeline * cluster_.pipeline().stages() + stage];
  for (double& value : watts) value *= cluster_.power_factor(pipeline, stage);
  return watts;
}

std::size_t PowerRecorder::gpus() const {
  return gpus_.size() * static_cast<std::size_t>(cluster_.shape().gpus_per_stage);
}

std::vector<double> PowerRecorder::numbered_gpu(std::size_t number) const {
  std::vector<double> watts =
      gpus_[number / static_cast<std::size_t>(cluster_.shape().gpus_per_stage)];
  const double factor =
      cluster_.node_factor(number / static_cast<std::size_t>(cluster_.shape().gpus_per_node));
  for (double& value : watts) value *= factor;
  return watts;
}

std::size_t PowerRecorder::nodes() const {
  const auto each = static_cast<std::size_t>(cluster_.shape().gpus_per_node);
  return (gpus() + each - 1) / each;
}

std::vector<double> PowerRecorder::node(std::size_t node) const {
  const auto of_stage = static_cast<std::size_t>(cluster_.shape().gpus_per_stage);
  const auto of_node = static_cast<std::size_t>(cluster_.shape().gpus_per_node);
  const std::size_t begin = node * of_node;
  const std::size_t end = std::min(begin + of_node, gpus_.size() * of_stage);
  std::vector<double> watts(job_.size());
  for (std::size_t gpu = begin; gpu < end; ++gpu) {
    const std::vector<double>& one = gpus_[gpu / of_stage];
    for (std::size_t i = 0; i < watts.size(); ++i) watts[i] += one[i];
  }
  for (double& value : watts) value *= cluster_.node_factor(node);
  return watts;
}

PowerSwings swings_of(std::span<const double> watts, Seconds step) {
  double sum = 0;
  for (const double value : watts) sum += value;
  const double mean = sum / static_cast<double>(watts.size());
  PowerSwings swings{.mean = Watts{mean},
                     .peak = Watts{std::ranges::max(watts)},
                     .lowest = Watts{std::ranges::min(watts)}};
  for (const Seconds over : kRamps) {
    const auto steps = static_cast<std::size_t>(std::llround(over / step));
    if (steps >= 1 && steps < watts.size()) swings.ramps.push_back(ramp_over(watts, over, steps));
  }
  swings.spectrum = spectrum_of(watts, step, mean);
  if (!swings.spectrum.empty())
    swings.strongest = *std::ranges::max_element(swings.spectrum, {}, &SpectralLine::amplitude);
  return swings;
}

}  // namespace harpe::lab
