#include "harpe/device/measure/power_regression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "harpe/base/statistics.h"

namespace harpe::device {

namespace {

constexpr double kLeastVariance = 1e-12;  // J^2

double length(const EnergySpan& span) {
  return span.to - span.from;
}

// Manners and their prior probabilities, chosen so that the bars of energy_coverage_test and
// command_coverage_test hold.
constexpr double kSteadyPrior = 0.7;
constexpr double kSwing = 3;      // prior of a swinging manner relative to a rough one
constexpr double kCoherence = 5;  // periods of the counter
constexpr double kSteadyAmplitude = 0.003;
constexpr double kLargestExponent = 340;  // exp() of it, squared, is finite
constexpr double kUnsure = 4;             // variances grow by this over the number of readings
constexpr std::array<double, 3> kAmplitudes{0.03, 0.2, 0.7};
/// Kernels of steady power first, then of rough power, then of swinging power.
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

PowerRegression::PowerRegression(std::span<const SpanReading> readings,
                                 std::span<const StepTime> steps, const PowerPrior& prior)
    : readings_(readings), steps_(steps), prior_(prior) {
  for (const SpanReading& reading : readings) {
    instants_.push_back(reading.span.from);
    instants_.push_back(reading.span.to);
  }
  for (const SpanReading& a : readings) {
    for (const SpanReading& b : readings) {
      double sum = square(prior.deviation) * length(a.span) * length(b.span);
      if (&a == &b) sum += a.variance;
      if (a.is_sample && b.is_sample) sum += square(prior.common_scale) * a.energy * b.energy;
      common_.push_back(sum);
    }
  }
  const std::span<const PowerManner> manners = power_manners();
  factors_.resize(manners.size());
  log_densities_.resize(manners.size());
  for (std::size_t first = 0; first < manners.size();) {
    const std::size_t kernel = manners[first].kernel;
    const SpanCovariance shape(power_kernels()[kernel], prior.period, instants_);
    for (; first < manners.size() && manners[first].kernel == kernel; ++first) factor(first, shape);
  }
}

/// Returns the covariance of two counter readings due to the uncertain times of their steps.
double PowerRegression::noise_covariance(const EnergySpan& a, const EnergySpan& b,
                                         double jitter) const {
  const auto variance = [&](int step) {
    const StepTime& time = steps_[static_cast<std::size_t>(step)];
    return square(time.power) * (square(jitter * time.jitter) + square(time.fixed));
  };
  double sum = 0;
  if (a.to_step >= 0) {
    if (a.to_step == b.to_step) sum += variance(a.to_step);
    if (a.to_step == b.from_step) sum -= variance(a.to_step);
  }
  if (a.from_step >= 0) {
    if (a.from_step == b.from_step) sum += variance(a.from_step);
    if (a.from_step == b.to_step) sum -= variance(a.from_step);
  }
  return sum;
}

void PowerRegression::factor(std::size_t manner, const SpanCovariance& shape) {
  const PowerManner& how = power_manners()[manner];
  const double variance = square(how.amplitude * prior_.level);
  const std::size_t count = readings_.size();
  Factor& factor = factors_[manner];
  factor.rows.resize(count * count);
  factor.z.resize(count);
  double density = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const SpanReading& a = readings_[i];
    double* const row = &factor.rows[i * count];
    for (std::size_t j = 0; j <= i; ++j) {
      const SpanReading& b = readings_[j];
      double sum = common_[i * count + j] + variance * shape(2 * i, 2 * i + 1, 2 * j, 2 * j + 1) +
                   noise_covariance(a.span, b.span, how.jitter);
      const double* const other = &factor.rows[j * count];
      for (std::size_t k = 0; k < j; ++k) sum -= row[k] * other[k];
      row[j] = i == j ? std::sqrt(std::max(sum, kLeastVariance)) : sum / other[j];
    }
    double off = a.energy - prior_.mean * length(a.span);
    for (std::size_t k = 0; k < i; ++k) off -= row[k] * factor.z[k];
    factor.z[i] = off / row[i];
    density -= 0.5 * square(factor.z[i]) + std::log(row[i]);
    log_densities_[manner].push_back(density);
  }
}

std::vector<PowerRegression::Prediction> PowerRegression::predict(
    std::size_t manner, std::span<const std::size_t> counts,
    std::span<const EnergySpan> targets) const {
  const PowerManner& how = power_manners()[manner];
  const double variance = square(how.amplitude * prior_.level), level = square(prior_.deviation);
  const std::size_t n = targets.size(), readings = readings_.size();
  const std::size_t most = counts.empty() ? 0 : *std::ranges::max_element(counts);
  std::vector<double> instants = instants_;
  for (const EnergySpan& target : targets) {
    instants.push_back(target.from);
    instants.push_back(target.to);
  }
  const SpanCovariance shape(power_kernels()[how.kernel], prior_.period, instants);
  const auto covariance = [&](const EnergySpan& a, std::size_t at_a, const EnergySpan& b,
                              std::size_t at_b) {
    return level * length(a) * length(b) + variance * shape(at_a, at_a + 1, at_b, at_b + 1) +
           noise_covariance(a, b, how.jitter);
  };
  const Factor& factor = factors_[manner];
  std::vector<double> rows(most * n), own(n * n);
  for (std::size_t k = 0; k < most; ++k) {
    const double* const row = &factor.rows[k * readings];
    for (std::size_t i = 0; i < n; ++i) {
      double sum = covariance(targets[i], 2 * (readings + i), readings_[k].span, 2 * k);
      for (std::size_t q = 0; q < k; ++q) sum -= row[q] * rows[q * n + i];
      rows[k * n + i] = sum / row[k];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      own[i * n + j] = own[j * n + i] =
          covariance(targets[i], 2 * (readings + i), targets[j], 2 * (readings + j));
    }
  }
  std::vector<Prediction> predictions;
  for (const std::size_t count : counts) {
    Prediction prediction{.mean = std::vector<double>(n), .covariance = own};
    for (std::size_t i = 0; i < n; ++i) {
      prediction.mean[i] = prior_.mean * length(targets[i]);
      for (std::size_t k = 0; k < count; ++k) {
        prediction.mean[i] += rows[k * n + i] * factor.z[k];
        for (std::size_t j = 0; j < n; ++j) {
          prediction.covariance[i * n + j] -= rows[k * n + i] * rows[k * n + j];
        }
      }
    }
    predictions.push_back(std::move(prediction));
  }
  return predictions;
}

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

/// exp(-(a - b)) and the rotation by a - b are products of a factor of a and a factor of b, so
/// exponentials and angles are computed once per instant, not once per pair.
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
  // Neighbouring spans share their instants: each is computed once.
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

namespace {

constexpr double kUnlikely = 1e-3;   // less likely explanations are dropped
constexpr double kAlikeMeans = 0.5;  // standard deviations; closer means are merged

}  // namespace

std::vector<Explanation> simplified(std::vector<Explanation> explanations) {
  std::erase_if(explanations, [](const Explanation& one) { return one.weight < kUnlikely; });
  std::ranges::sort(explanations, {}, &Explanation::energy);
  std::vector<Explanation> few;
  for (const Explanation& one : explanations) {
    Explanation* const last = few.empty() ? nullptr : &few.back();
    if (last == nullptr || square(one.energy - last->energy) >
                               square(kAlikeMeans) * std::min(one.variance, last->variance)) {
      few.push_back(one);
      continue;
    }
    const double weight = last->weight + one.weight;
    const auto mean = [&](double a, double b) {
      return (last->weight * a + one.weight * b) / weight;
    };
    const double energy = mean(last->energy, one.energy);
    last->variance = mean(last->variance + square(last->energy - energy),
                          one.variance + square(one.energy - energy));
    last->power = mean(last->power, one.power);
    last->energy = energy;
    last->weight = weight;
  }
  double sum = 0;
  for (const Explanation& one : few) sum += one.weight;
  for (Explanation& one : few) one.weight /= sum;
  return few;
}

MeanAndError summary_of(const std::vector<Explanation>& explanations, double share_held) {
  MeanAndError summary;
  double variance = 0;
  for (const Explanation& one : explanations) summary.mean += one.weight * one.energy;
  for (const Explanation& one : explanations) {
    variance += one.weight * (one.variance + square(one.energy - summary.mean));
  }
  const auto held = [&](double half) {
    double share = 0;
    for (const Explanation& one : explanations) {
      const double scale = std::sqrt(2 * one.variance), off = one.energy - summary.mean;
      share += one.weight * (std::erf((half - off) / scale) - std::erf((-half - off) / scale)) / 2;
    }
    return share;
  };
  // Chebyshev's inequality limits the error.
  double low = 0, high = std::sqrt(variance / (1 - share_held));
  constexpr int kHalvings = 20;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (held(middle) < share_held ? low : high) = middle;
  }
  summary.error = high;
  return summary;
}

}  // namespace harpe::device
