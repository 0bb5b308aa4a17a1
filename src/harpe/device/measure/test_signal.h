#pragma once
/// \file
/// Power over time with a known integral, and sensors that behave like a GPU's. For tests.

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "harpe/device/measure/energy_estimator.h"

namespace harpe::device {

/// Power that jumps between constants. Times in seconds.
class Signal {
 public:
  void add(double duration, double power) {
    starts_.push_back(end_);
    powers_.push_back(power);
    energies_.push_back(energy_);
    end_ += duration;
    energy_ += duration * power;
  }
  double end() const { return end_; }
  double power(double time) const { return powers_[piece(time)]; }
  /// Returns the energy from time 0.
  double energy(double time) const {
    const std::size_t i = piece(time);
    return energies_[i] + (time - starts_[i]) * powers_[i];
  }

 private:
  std::size_t piece(double time) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), time);
    return static_cast<std::size_t>(std::max<std::ptrdiff_t>(after - starts_.begin() - 1, 0));
  }
  std::vector<double> starts_, powers_, energies_;
  double end_ = 0, energy_ = 0;
};

/// The sensors of a GPU and their errors.
struct SensorModel {
  bool has_counter = true, has_power = true;
  double step = 0.1;           ///< s
  double phase = 0.037;        ///< phase of the steps, s
  double step_jitter = 0.001;  ///< standard deviation, s
  double counter_scale = 1;    ///< counter joules per true joule (the counter is the reference)
  double power_scale = 0.95;   ///< sampled watts per true watt
  double power_noise = 0.01;   ///< relative standard deviation
  double measuring = 0;        ///< measurement interval of the power sensor, s; 0 for every reading
  double measuring_window = 0.025;  ///< averaging time of a measurement, s
  double sampling = 0.02;           ///< s
  double sampling_jitter = 0.2;     ///< share of `sampling`, uniform
};

class Sensor {
 public:
  Sensor(const Signal& signal, SensorModel model, std::mt19937_64& random)
      : signal_(&signal), model_(model), random_(&random) {
    std::normal_distribution<double> jitter(0, model.step_jitter);
    for (double time = model.phase; time < signal.end(); time += model.step) {
      steps_.push_back(std::max(time + jitter(random), steps_.empty() ? 0 : steps_.back() + 1e-6));
    }
  }

  EnergySample look(double time) {
    EnergySample sample{.time = instant(time)};
    if (model_.has_counter) {
      const auto after = std::upper_bound(steps_.begin(), steps_.end(), time);
      const double truth = after == steps_.begin() ? 0 : signal_->energy(*std::prev(after));
      sample.counter = Joules{std::floor(1000 * model_.counter_scale * truth) / 1000 + 1234.5};
    }
    if (model_.has_power) sample.power = Watts{power(time)};
    return sample;
  }

  /// Returns the time of the next reading after `time`.
  double next(double time) {
    const double share =
        1 + std::uniform_real_distribution<double>(-1, 1)(*random_) * model_.sampling_jitter;
    return time + share * model_.sampling;
  }

  static Instant instant(double time) { return Instant{} + Seconds{time}; }

 private:
  double power(double time) {
    const double noise = std::normal_distribution<double>(1, model_.power_noise)(*random_);
    const double factor = model_.power_scale * std::max(noise, 0.0);
    if (model_.measuring == 0) return factor * signal_->power(time);
    const double measured = std::floor(time / model_.measuring) * model_.measuring;
    if (measured != measured_) {
      measured_ = measured;
      const double from = std::max(0.0, measured - model_.measuring_window);
      value_ = measured <= from ? factor * signal_->power(measured)
                                : factor * (signal_->energy(measured) - signal_->energy(from)) /
                                      (measured - from);
    }
    return value_;
  }

  double measured_ = -1, value_ = 0;
  const Signal* signal_;
  SensorModel model_;
  std::mt19937_64* random_;
  std::vector<double> steps_;
};

enum class SignalKind { kConstant, kTraining, kPulses, kWander };

/// Returns a realistic signal: constant power; iterations of busy and waiting; pulses of a few
/// milliseconds; a wandering level.
inline Signal make_signal(SignalKind kind, double duration, std::mt19937_64& random) {
  std::uniform_real_distribution<double> unit(0, 1);
  Signal signal;
  double level = 200;
  const double busy = 0.2 + unit(random), idle = 0.05 + 0.3 * unit(random);
  while (signal.end() < duration) {
    switch (kind) {
      case SignalKind::kConstant:
        signal.add(duration + 1, 300);
        break;
      case SignalKind::kTraining: {
        const double time = busy * (0.95 + 0.1 * unit(random));
        const double power = 380 + 20 * unit(random);
        signal.add(time, power);
        signal.add(idle, 90);
        break;
      }
      case SignalKind::kPulses: {
        const double time = 0.002 + 0.03 * unit(random);
        signal.add(time, 400);
        signal.add(0.002 + 0.03 * unit(random), 100);
        break;
      }
      case SignalKind::kWander:
        level = std::clamp(level + 40 * (unit(random) - 0.5), 60.0, 450.0);
        signal.add(0.05, level);
        break;
    }
  }
  return signal;
}

}  // namespace harpe::device
