// A bandit over settings with a budget of slowdown.

#include "harpe/zeus/power_limit/online_optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "harpe/zeus/power_limit/power_limits_testing.h"

namespace harpe::zeus {
namespace {

Knob limits() {
  return power_limits({100}, {300});
}

/// Time of a step by setting and step number.
using Times = std::function<double(std::size_t, int)>;

/// Plays steps and checks after each that the run so far was within the budget.
void expect_within_budget(const OnlineOptions& options, const Times& times, int steps,
                          const std::string& what) {
  OnlineOptimizer optimizer = OnlineOptimizer::make(limits(), options).take();
  std::optional<Measurement> last;
  double total = 0;
  for (int step = 0; step < steps; ++step) {
    const std::size_t setting = optimizer.next(last);
    const double time = times(setting, step);
    total += time;
    last = Measurement{optimizer.knob()[setting], {time}, {time * optimizer.knob()[setting]}};
    ASSERT_LE(total, (1 + options.slowdown) * (step + 1) * (1 + 1e-12)) << what << ", " << step;
  }
}

TEST(OnlineOptimizer, NoTimesWithinTheWorstBreakTheBudgetAtAnyStep) {
  for (unsigned round = 0; round < 300; ++round) {
    SCOPED_TRACE("seed " + std::to_string(round));
    std::mt19937_64 random(round);
    const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1.0p-53; };
    OnlineOptions options{.selector = {.eta = uniform()}};
    options.slowdown = 0.3 * uniform();
    options.worst_slowdown = 1 + 9 * uniform();
    options.block_steps = 1 + static_cast<int>(random() % 30);
    options.settle_steps = static_cast<int>(random() % 6);
    const double worst = options.worst_slowdown;
    // Good for a while, then the worst; or the worst at random; or alternating, to gain trust.
    const int turn = static_cast<int>(random() % 2000);
    const double share = uniform();
    const Times times = [&](std::size_t setting, int step) -> double {
      if (setting == 0) return 1;
      if (round % 3 == 0) return step < turn ? 0.9 : worst;
      if (round % 3 == 1) return uniform() < share ? worst : 1;
      return (step / 50) % 2 == 0 ? 0.5 : worst;
    };
    expect_within_budget(options, times, 3000, "round " + std::to_string(round));
  }
}

TEST(OnlineOptimizer, ABudgetOfNothingStaysAtTheHighestSetting) {
  OnlineOptimizer optimizer = OnlineOptimizer::make(limits(), {.slowdown = 0}).take();
  std::optional<Measurement> last;
  for (int step = 0; step < 500; ++step) {
    ASSERT_EQ(optimizer.next(last), 0U);
    last = Measurement{300, {1}, {250}};
  }
}

TEST(OnlineOptimizer, AStallBeyondTheWorstKeepsTheHighestSettingUntilItIsPaidFor) {
  OnlineOptimizer optimizer = OnlineOptimizer::make(limits(), {.slowdown = 0.1}).take();
  std::optional<Measurement> last;
  bool stalled = false;
  int low_after_stall = 0;
  for (int step = 0; step < 5000; ++step) {
    const std::size_t setting = optimizer.next(last);
    double time = 1;
    if (setting != 0 && !stalled) {
      stalled = true;
      time = 1000;
    } else if (setting != 0) {
      ++low_after_stall;
    }
    last = Measurement{optimizer.knob()[setting], {time}, {time * 200}};
  }
  EXPECT_TRUE(stalled);
  EXPECT_EQ(low_after_stall, 0);
}

/// A job whose time rises below 200 W as a power of the limit, and whose power is the limit.
Measurement job(double limit, double noise) {
  const double time = std::pow(std::max(1.0, 200 / limit), 1.7) * noise;
  return {limit, {time}, {time * std::min(limit, 260.0)}};
}

TEST(OnlineOptimizer, FindsTheBestSettingOfANoisyJobWithFewSwitches) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    std::mt19937_64 random(seed);
    const OnlineOptions options{.selector = {.kind = Selector::Kind::kEnergy}, .slowdown = 0.1};
    OnlineOptimizer optimizer = OnlineOptimizer::make(limits(), options).take();
    std::optional<Measurement> last;
    int at_best = 0;
    for (int step = 0; step < 20'000; ++step) {
      const std::size_t setting = optimizer.next(last);
      // A triangular distribution with a deviation of 2 %.
      const double noise = 1 + 0.02 * std::sqrt(6.0) *
                                   (static_cast<double>(random() >> 11) * 0x1.0p-53 +
                                    static_cast<double>(random() >> 11) * 0x1.0p-53 - 1);
      last = job(optimizer.knob()[setting], noise);
      if (step >= 10'000 && optimizer.knob()[setting] == 200) ++at_best;
    }
    EXPECT_GE(at_best, 8000) << "seed " << seed;
    EXPECT_LE(optimizer.switches(), 150) << "seed " << seed;
  }
}

TEST(OnlineOptimizer, StepsThatAreNoNumbersTeachNothingAndCountAsTheWorst) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  OnlineOptimizer optimizer = OnlineOptimizer::make(limits(), {.slowdown = 0.2}).take();
  std::optional<Measurement> last;
  for (int step = 0; step < 2000; ++step) {
    const std::size_t setting = optimizer.next(last);
    last = setting == 0 ? Measurement{300, {1}, {250}} : Measurement{200, {nan}, {nan}};
    ASSERT_LE(optimizer.excess().value, optimizer.allowance().value + 1e-9);
  }
  EXPECT_EQ(optimizer.best(), 0U);
}

TEST(OnlineOptimizer, HasNothingToDoWithoutTwoSettings) {
  for (const auto& settings : {std::vector<double>{}, std::vector<double>{250}}) {
    OnlineOptimizer optimizer =
        OnlineOptimizer::make(Knob::make(KnobKind::kPowerLimit, settings).take(), {}).take();
    std::optional<Measurement> last;
    for (int step = 0; step < 100; ++step) {
      EXPECT_EQ(optimizer.next(last), 0U);
      last = Measurement{250, {1}, {200}};
    }
  }
}

TEST(OnlineOptimizer, RefusesWrongOptions) {
  EXPECT_FALSE(OnlineOptimizer::make(limits(), {.slowdown = -0.1}).ok());
  EXPECT_FALSE(OnlineOptimizer::make(limits(), {.worst_slowdown = 0.5}).ok());
  EXPECT_FALSE(OnlineOptimizer::make(limits(), {.reference_steps = 1}).ok());
  EXPECT_FALSE(OnlineOptimizer::make(limits(), {.block_steps = 0}).ok());
  EXPECT_FALSE(
      OnlineOptimizer::make(limits(), {.selector = {.kind = Selector::Kind::kMaxSlowdown}}).ok());
  const Knob clocks = Knob::make(KnobKind::kGraphicsClock, {1410, 1200}).take();
  EXPECT_FALSE(OnlineOptimizer::make(clocks, {}).ok());
  EXPECT_TRUE(OnlineOptimizer::make(clocks, {.selector = {.max_power = {400}}}).ok());
}

}  // namespace
}  // namespace harpe::zeus
