#pragma once
/// \file
/// A job in simulated time for tests of tuners. Its GPUs answer late, like energy counters.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "harpe/zeus/power_limit/power_limits_testing.h"
#include "harpe/zeus/tuning/tuner.h"

namespace harpe::zeus {

/// Time and energy of a job under power limits: limits below 290 W cost time.
class SimulatedJob final : public KnobSetter, public WindowMeter {
 public:
  explicit SimulatedJob(unsigned seed = 1, double lowest = 100)
      : knob_(power_limits({lowest}, {300}, {10})), random_(seed) {}

  // KnobSetter
  const Knob& knob() const override { return knob_; }
  Status set(std::size_t setting) override {
    EXPECT_FALSE(window_) << "a window over two settings";
    if (refuses) return Error::of(ErrorCode::kConflict, "the lease has ended");
    ++sets;
    setting_ = setting;
    return ok_status();
  }
  Status keep(Instant) override { return ok_status(); }
  Status restore() override { return ok_status(); }

  // WindowMeter
  Status begin(Instant at) override {
    EXPECT_FALSE(window_);
    window_ = at;
    return ok_status();
  }
  bool settled(Instant at) const override { return now_ - at >= 0.15_s; }
  void settle(Instant at) override {
    while (!settled(at)) spend(0.005, 30);
  }
  Result<MeteredWindow> end(Instant at) override {
    EXPECT_TRUE(window_);
    EXPECT_GT(at, *window_);
    const double joules = energy_until(at) - energy_until(*window_);
    window_.reset();
    return MeteredWindow{{joules}, {joules * 0.002}};
  }
  void cancel() override {
    EXPECT_TRUE(window_);
    window_.reset();
  }

  double time_of(double limit) const {
    return base * std::pow(std::max(1.0, knee / limit), exponent);
  }
  double power_of(double limit) const { return std::min(limit, most_power); }
  double energy_of(double limit) const { return time_of(limit) * power_of(limit); }
  double setting() const { return knob_[setting_]; }

  /// Runs steps. The tuner is polled every 5 ms, and after the end until it waits for nothing.
  void run(Tuner& tuner, int steps, int epoch = 0) {
    for (int i = 1; i <= steps; ++i) {
      tuner.on({StepEvent::Kind::kStep, seen(now_)});
      const double scatter = 1 + 0.01 * (static_cast<double>(random_() % 2001) / 1000 - 1);
      pass(tuner, time_of(setting()) * scatter, power_of(setting()));
      ++steps_at[setting()];
      if (epoch > 0 && i % epoch == 0) {
        tuner.on({StepEvent::Kind::kEpochEnd, seen(now_)});
        pass(tuner, 5, 60);  // a validation
      }
    }
  }
  void idle(Tuner& tuner, double seconds) { pass(tuner, seconds, 60); }
  void end(Tuner& tuner) {
    tuner.finish();
    while (tuner.waits()) pass(tuner, 0.005, 30);
    EXPECT_FALSE(window_) << "left open";
  }

  double joules() const { return energy_.empty() ? 0 : energy_.back().second; }

  double base = 0.2;  ///< s of a step without a limit
  double knee = 290, exponent = 0.5, most_power = 280;
  std::int64_t look_ns = 1;  ///< steps are seen at multiples of this
  bool refuses = false;
  int sets = 0;
  std::map<double, int> steps_at;

 private:
  void pass(Tuner& tuner, double seconds, double watts) {
    const Instant end = now_ + Seconds{seconds};
    while (now_ < end) {
      const Seconds tick = std::min(0.005_s, end - now_ + 1e-9_s);
      spend(tick.value, watts);
      tuner.poll(now_);
    }
  }
  void spend(double seconds, double watts) {
    now_ = now_ + Seconds{seconds};
    energy_.emplace_back(now_, joules() + watts * seconds);
  }
  Instant seen(Instant at) const { return {at.ns - at.ns % look_ns}; }
  double energy_until(Instant at) const {
    const auto after =
        std::ranges::upper_bound(energy_, at, {}, &std::pair<Instant, double>::first);
    return after == energy_.begin() ? 0 : std::prev(after)->second;
  }

  Knob knob_;
  std::mt19937_64 random_;
  std::size_t setting_ = 0;
  Instant now_{36'000'000'000'000};  // the machine has run for hours
  std::optional<Instant> window_;
  std::vector<std::pair<Instant, double>> energy_;
};

}  // namespace harpe::zeus
