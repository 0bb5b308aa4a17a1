#include "harpe/lab/emulation/power_swings.h"

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
/// Length of a part of which a spectrum is made, at least: ten swings of the lowest frequency.
constexpr double kShortestPart = 10 / kLowestHertz;

/// The discrete Fourier transform in place (Cooley and Tukey 1965). \pre the size is a power of two
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
