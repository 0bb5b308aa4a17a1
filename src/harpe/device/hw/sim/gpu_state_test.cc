#include "harpe/device/hw/sim/gpu_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "harpe/device/hw/sim/gpu_spec.h"

namespace harpe::device {
namespace {

constexpr std::int64_t kMs = 1'000'000, kSecond = 1'000'000'000;

SimulatedGpuSpec exact(std::string_view name) {
  SimulatedGpuSpec spec = *catalogue_gpu(name);
  spec.noise = 0;
  spec.seed = 7;
  spec.counter_phase_ns = 37 * kMs;
  spec.sensor_phase_ns = 81 * kMs;
  return spec;
}

/// A single GPU with work from its own model.
struct Bench {
  SimulatedGpuSpec spec;
  SimulatedGpuState state;
  WorkTable tables[kMaxStreams] = {};

  explicit Bench(SimulatedGpuSpec wanted) : spec(std::move(wanted)), state(initial_state(spec)) {}

  void to(std::int64_t ns) { advance(spec, tables, state, ns); }
  void load(double activity) {
    state.load = activity;
    settle(spec, tables, state);
  }
  void lock(int lowest, int highest) {
    order_clocks(spec, state, ClockDomain::kGraphics, {true, lowest, highest});
  }
  double power() const { return true_power(spec, tables, state); }
};

/// Random controls and loads at random times.
class Script {
 public:
  Script(unsigned seed, std::int64_t length) {
    std::mt19937 random(seed);
    for (std::int64_t at = 0; at < length;) {
      const std::int64_t gap = std::uniform_int_distribution<std::int64_t>(kMs, kSecond)(random);
      const int what = std::uniform_int_distribution(0, 3)(random);
      const double amount = std::uniform_real_distribution(0.0, 1.0)(random);
      at += gap;
      steps_.push_back({at, what, amount});
    }
  }

  template <class Between>
  void play(Bench& bench, const Between& between) const {
    for (const Step& step : steps_) {
      between(bench, step.at);
      bench.to(step.at);
      const GpuModel& gpu = bench.spec.gpu;
      const int clock = gpu.min_clock.value +
                        static_cast<int>(step.amount * (gpu.max_clock.value - gpu.min_clock.value));
      if (step.what == 0) bench.load(step.amount);
      if (step.what == 1) bench.load(1);
      if (step.what == 2) bench.lock(gpu.min_clock.value, clock);
      if (step.what == 3) {
        bench.state.limit_w =
            bench.spec.lowest_limit_w +
            step.amount * (bench.spec.highest_limit_w - bench.spec.lowest_limit_w);
      }
    }
  }

 private:
  struct Step {
    std::int64_t at;
    int what;
    double amount;
  };
  std::vector<Step> steps_;
};

TEST(Advance, InOneStepOrInManyGivesTheSame) {
  for (const std::string& name : simulated_gpu_names()) {
    const Script script(11, 60 * kSecond);
    Bench whole(exact(name)), parts(exact(name));
    script.play(whole, [](Bench&, std::int64_t) {});
    std::mt19937 random(12);
    script.play(parts, [&](Bench& bench, std::int64_t until) {
      for (std::int64_t at = bench.state.time_ns; at < until;) {
        at += std::uniform_int_distribution<std::int64_t>(1, 40 * kMs)(random);
        bench.to(std::min(at, until));
      }
    });
    // If a limit is just reached, the controller may act one tick earlier or later.
    EXPECT_NEAR(parts.state.energy_j / whole.state.energy_j, 1, 5e-4) << name;
    EXPECT_NEAR(parts.state.temperature_c, whole.state.temperature_c, 0.01) << name;
    EXPECT_NEAR(parts.state.clock_mhz, whole.state.clock_mhz, 0.2) << name;
    EXPECT_NEAR(visible_average_power(parts.spec, parts.state) /
                    visible_average_power(whole.spec, whole.state),
                1, 5e-4)
        << name;
  }
}

TEST(Advance, TheSameHistoryGivesTheSameBytes) {
  Bench a(exact("a40")), b(exact("a40"));
  const Script script(3, 60 * kSecond);
  script.play(a, [](Bench&, std::int64_t) {});
  script.play(b, [](Bench&, std::int64_t) {});
  EXPECT_EQ(a.state.energy_j, b.state.energy_j);
  EXPECT_EQ(a.state.temperature_c, b.state.temperature_c);
  EXPECT_EQ(visible_instant_power(a.spec, a.state), visible_instant_power(b.spec, b.state));
}

TEST(Energy, IsTheIntegralOfPower) {
  Bench bench(exact("a100-sxm"));
  double integral = 0;
  // Midpoint rule. If the clock jumps within a step, the sum is off by one step.
  Script(5, 20 * kSecond).play(bench, [&](Bench& b, std::int64_t until) {
    while (b.state.time_ns < until) {
      const std::int64_t step = std::min<std::int64_t>(kMs / 2, until - b.state.time_ns);
      const std::int64_t begin = b.state.time_ns;
      b.to(begin + step / 2);
      const double power = b.power();
      b.to(begin + step);
      integral += power * static_cast<double>(step) * 1e-9;
    }
  });
  EXPECT_NEAR(bench.state.energy_j / integral, 1, 2e-4);
}

TEST(Counter, NeverFallsAndIsWithinOneStepOfTheTruth) {
  Bench bench(exact("a40"));
  double before = 0;
  int steps = 0;
  Script(9, 30 * kSecond).play(bench, [&](Bench& b, std::int64_t until) {
    while (b.state.time_ns < until) {
      b.to(std::min(until, b.state.time_ns + 3 * kMs));
      const double seen = visible_energy(b.spec, b.state);
      ASSERT_GE(seen, before);
      steps += seen > before ? 1 : 0;
      before = seen;
      ASSERT_LE(seen, b.state.energy_j + 1e-9);
      ASSERT_GE(seen, b.state.energy_j - 0.1 * 1.3 * b.spec.highest_limit_w - 0.001);
    }
  });
  const double seconds = static_cast<double>(bench.state.time_ns) * 1e-9;
  EXPECT_NEAR(steps, seconds * 10, 2);
}

TEST(AveragePower, FollowsASecondLate) {
  SimulatedGpuSpec spec = exact("a100-sxm");
  spec.leakage = 0;
  Bench bench(spec);
  bench.lock(1200, 1200);  // well below the power limit
  bench.to(5 * kSecond + 37 * kMs);
  const double idle = visible_average_power(bench.spec, bench.state);
  EXPECT_NEAR(idle, spec.idle_power_w, 1e-6);
  bench.load(1);
  const double busy = bench.power();
  for (int tenth = 1; tenth <= 10; ++tenth) {
    bench.to(5 * kSecond + 37 * kMs + tenth * 100 * kMs);
    EXPECT_NEAR(visible_average_power(bench.spec, bench.state), idle + (busy - idle) * tenth / 10,
                1e-6)
        << tenth;
  }
}

TEST(InstantPower, SeesOnlyTheWindowOfTheSensor) {
  SimulatedGpuSpec spec = exact("a100-sxm");
  spec.leakage = 0;
  Bench bench(spec);
  bench.lock(1200, 1200);
  // Samples end at 81 ms and cover 25 ms. Work of 50 ms that ends before the window is missed.
  bench.to(kSecond + 100 * kMs);
  bench.load(1);
  bench.to(kSecond + 150 * kMs);
  bench.load(0);
  bench.to(kSecond + 190 * kMs);
  EXPECT_NEAR(visible_instant_power(bench.spec, bench.state), spec.idle_power_w, 1e-6);
  // Work that fills only the window looks as if it always ran.
  bench.to(kSecond + 255 * kMs);
  bench.load(1);
  const double busy = bench.power();
  bench.to(kSecond + 281 * kMs);
  bench.load(0);
  bench.to(kSecond + 300 * kMs);
  EXPECT_NEAR(visible_instant_power(bench.spec, bench.state), busy, 1e-6);
}

TEST(Temperature, SettlesWhereHeatIsCarriedAway) {
  for (const std::string& name : simulated_gpu_names()) {
    Bench bench(exact(name));
    bench.load(1);
    bench.to(3600 * kSecond);
    const double heat = bench.power() - (bench.spec.module_scope ? bench.spec.module_power_w : 0);
    EXPECT_NEAR(bench.state.temperature_c, bench.spec.ambient_c + bench.spec.kelvin_per_watt * heat,
                0.02)
        << name;
    EXPECT_LT(bench.state.temperature_c, bench.spec.slowdown_c) << name;
    EXPECT_GT(bench.state.temperature_c, 55) << name;
  }
}

TEST(Temperature, HotChipsDrawMore) {
  SimulatedGpuSpec cold = exact("a40"), hot = exact("a40");
  hot.ambient_c = 45;
  Bench a(cold), b(hot);
  for (Bench* bench : {&a, &b}) {
    bench->lock(1200, 1200);
    bench->load(1);
    bench->to(600 * kSecond);
  }
  EXPECT_GT(b.power(), a.power() * 1.01);
}

TEST(PowerLimit, IsNeverPassedForLong) {
  for (const std::string& name : simulated_gpu_names()) {
    Bench bench(exact(name));
    bench.spec.module_scope = false;
    std::mt19937 random(4);
    for (int i = 0; i < 20; ++i) {
      const GpuModel& gpu = bench.spec.gpu;
      // At its lowest throttled clock a GPU may draw more than a very low limit.
      const double floor = demanded_power(gpu, std::max(gpu.throttle_floor, gpu.min_clock).value /
                                                   static_cast<double>(gpu.max_clock.value)) *
                           1.1;
      bench.state.limit_w =
          std::uniform_real_distribution(floor, bench.spec.highest_limit_w)(random);
      bench.load(i % 3 == 0 ? 0.0 : 1.0);
      bench.to(bench.state.time_ns + 150 * kMs);
      for (int look = 0; look < 100; ++look) {
        bench.to(bench.state.time_ns + 10 * kMs);
        ASSERT_LE(bench.power(), bench.state.limit_w * 1.002) << name;
        const bool capped = (bench.state.reasons & EventReasons::kPowerCap) != 0;
        ASSERT_EQ(capped,
                  bench.state.load > 0 && bench.state.clock_mhz < gpu.max_clock.value - 0.1);
      }
    }
  }
}

TEST(PowerLimit, IsPassedForAMomentWhenLoadComes) {
  Bench bench(exact("a100-sxm"));
  bench.state.limit_w = 300;
  bench.to(kSecond);
  bench.load(1);
  EXPECT_GT(bench.power(), 400);
  bench.to(kSecond + 120 * kMs);
  EXPECT_LE(bench.power(), 300.5);
}

TEST(Heat, TakesTheClockAndSaysSo) {
  SimulatedGpuSpec spec = exact("a40");
  spec.ambient_c = 60;
  Bench bench(spec);
  bench.load(1);
  bench.to(600 * kSecond);
  EXPECT_GT(bench.state.temperature_c, spec.slowdown_c);
  EXPECT_LT(bench.state.temperature_c, spec.hardware_slowdown_c);
  EXPECT_LT(bench.state.clock_mhz, spec.gpu.max_clock.value - 50);
  EXPECT_EQ(bench.state.reasons & EventReasons::kSoftwareThermal, EventReasons::kSoftwareThermal);
  spec.slowdown_c = 95;  // too high to slow the GPU in time, so the hardware must
  spec.hardware_slowdown_c = 96;
  spec.ambient_c = 75;
  Bench hot(spec);
  hot.load(1);
  std::uint64_t seen = 0;
  for (int i = 0; i < 2000; ++i) {
    hot.to(hot.state.time_ns + 100 * kMs);
    seen |= hot.state.reasons;
  }
  EXPECT_NE(seen & EventReasons::kHardwareThermal, 0u);
  EXPECT_LT(hot.state.temperature_c, 100);
}

TEST(ClockSwitch, ComesIntoForceAfterItsLatencyInOrder) {
  SimulatedGpuSpec spec = exact("a100-sxm");
  Bench bench(spec);
  bench.load(0.5);
  bench.to(kSecond);
  bench.lock(900, 900);
  bench.to(kSecond + kMs);
  EXPECT_EQ(visible_clock(spec, bench.state, ClockDomain::kGraphics), 1410);
  bench.lock(1200, 1200);
  bool saw_900 = false;
  while (bench.state.assignments > 0) {
    bench.to(bench.state.time_ns + kMs / 10);
    saw_900 |= visible_clock(spec, bench.state, ClockDomain::kGraphics) == 900;
  }
  EXPECT_TRUE(saw_900 ||
              median_switch_latency(spec, 900, 1200) < median_switch_latency(spec, 1410, 900));
  EXPECT_EQ(visible_clock(spec, bench.state, ClockDomain::kGraphics), 1200);
}

TEST(ClockSwitch, LatencyDependsOnTheTargetMostAndSomeAreSlow) {
  const SimulatedGpuSpec spec = exact("a100-sxm");
  const std::vector<int> clocks = supported_clocks(spec, ClockDomain::kGraphics);
  int slow_targets = 0, slow_pairs = 0;
  for (const int to : clocks) {
    std::vector<double> of_target;
    for (const int from : clocks) of_target.push_back(median_switch_latency(spec, from, to));
    std::sort(of_target.begin(), of_target.end());
    const double typical = of_target[of_target.size() / 2];
    slow_targets += typical > 3 * spec.latency.typical_s ? 1 : 0;
    for (const double latency : of_target) slow_pairs += latency > typical + 0.1 ? 1 : 0;
  }
  const double pairs = static_cast<double>(clocks.size() * clocks.size());
  EXPECT_GE(slow_targets, 1);
  EXPECT_LE(slow_targets, 12);
  EXPECT_NEAR(slow_pairs / pairs, spec.latency.slow_pair_share, 0.005);
}

TEST(ClockSwitch, WhatIsAskedForAlreadyHoldsNothingUp) {
  SimulatedGpuSpec spec = exact("a100-sxm");
  spec.latency.slow_pair_share = 1;
  spec.latency.slow_pair_s = 1;
  Bench bench(spec);
  bench.lock(900, 900);
  bench.to(5 * kSecond);
  bench.lock(900, 900);
  EXPECT_EQ(bench.state.assignments, 0);
  bench.lock(1200, 1200);
  bench.lock(1200, 1200);
  EXPECT_EQ(bench.state.assignments, 1);
}

TEST(ClockSwitch, ManyAssignmentsAtOnceEndAtTheLast) {
  Bench bench(exact("a100-sxm"));
  bench.load(0.5);
  for (int i = 0; i < 30; ++i) bench.lock(210, 900 + 15 * i);
  bench.to(5 * kSecond);
  EXPECT_EQ(visible_clock(bench.spec, bench.state, ClockDomain::kGraphics), 900 + 15 * 29);
}

TEST(LongGaps, AreCheapAndRight) {
  Bench hot(exact("a40"));
  hot.spec.ambient_c = 66;  // keeps the GPU throttled by heat
  hot.load(1);
  hot.to(24LL * 3600 * kSecond);
  EXPECT_NEAR(hot.state.energy_j / (hot.power() * 24 * 3600), 1, 0.01);
  Bench idle(exact("a40"));
  idle.to(365LL * 24 * 3600 * kSecond);
  EXPECT_NEAR(idle.state.energy_j / (idle.power() * 365 * 24 * 3600), 1, 1e-6);
}

}  // namespace
}  // namespace harpe::device
