// Clock switch latencies measured on simulated GPUs, whose latencies are known.

#include "harpe/device/measure/switch_latency.h"

#include <gmock/gmock.h>

#include <cmath>

#include "harpe/device/hw/sim/simulation.h"

namespace harpe::device {
namespace {

using ::testing::HasSubstr;

class SwitchLatencies : public testing::Test {
 protected:
  void simulate(const std::string& more) {
    auto simulation = Simulation::make("[[gpu]]\nmodel = \"a100-sxm\"\n" + more, "test", clock_);
    ASSERT_TRUE(simulation.ok()) << simulation.error().text();
    simulation_ = *simulation;
    ASSERT_TRUE(simulation_->set_load(0, 0.5).ok());
    gpu_ = simulation_->gpu(0);
  }
  ManualClock clock_{Instant{1'000'000'000}};
  std::shared_ptr<Simulation> simulation_;
  std::unique_ptr<Gpu> gpu_;
};

TEST_F(SwitchLatencies, MediansAreThoseOfTheDevice) {
  simulate("call_ms = 4\nswitch_ms = 15\nswitch_spread = 0.1\nslow_pair_share = 0.0\n");
  SwitchLatencyOptions options{.clocks = {{900}, {1155}, {1410}}, .repeats = 60};
  const auto result = measure_switch_latency(*gpu_, options, clock_);
  ASSERT_TRUE(result.ok()) << result.error().text();
  ASSERT_EQ(result->switches.size(), 6);
  for (const ClockSwitch& pair : result->switches) {
    SCOPED_TRACE(std::to_string(pair.from.value) + " -> " + std::to_string(pair.to.value));
    ASSERT_EQ(pair.late, 0);
    const double truth = simulation_->switch_latency(0, pair.from, pair.to).value;
    const double median = pair.transition()->median.value;
    // 0.07: four deviations of the median of 60 values of that spread, 0.1 * 1.25 / sqrt(60) each.
    EXPECT_NEAR(median, truth, 0.07 * truth + pair.resolution.value);
    EXPECT_NEAR(pair.call()->median.value, 0.004, 0.001);
    EXPECT_LT(pair.resolution.value, 0.005);
    EXPECT_GE(pair.transition()->p95, pair.transition()->median);
    EXPECT_GE(pair.transition()->longest, pair.transition()->p95);
  }
}

TEST_F(SwitchLatencies, SlowSwitchesAreCountedNotTimed) {
  simulate("call_ms = 1\nswitch_ms = 3000\nswitch_spread = 0.0\nslow_pair_share = 0.0\n");
  SwitchLatencyOptions options{.clocks = {{900}, {1410}}, .repeats = 3, .timeout = {0.5}};
  const auto result = measure_switch_latency(*gpu_, options, clock_);
  ASSERT_TRUE(result.ok());
  for (const ClockSwitch& pair : result->switches) {
    EXPECT_EQ(pair.late, 3);
    EXPECT_FALSE(pair.transition());
  }
}

// No time beyond the timeout is reported, even if the call alone takes longer.
TEST_F(SwitchLatencies, NothingIsTimedBeyondTheTimeout) {
  simulate("call_ms = 10\nswitch_ms = 15\nswitch_spread = 0.0\nslow_pair_share = 0.0\n");
  for (const double timeout : {0.001, 0.005, 0.012}) {
    SCOPED_TRACE(timeout);
    SwitchLatencyOptions options{.clocks = {{900}, {1410}}, .repeats = 4, .timeout = {timeout}};
    const auto result = measure_switch_latency(*gpu_, options, clock_);
    ASSERT_TRUE(result.ok());
    for (const ClockSwitch& pair : result->switches) {
      const Seconds truth = simulation_->switch_latency(0, pair.from, pair.to);
      ASSERT_GT(truth.value, 0.0125);
      EXPECT_EQ(pair.late, 4);
      EXPECT_FALSE(pair.transition());
    }
  }
  SwitchLatencyOptions options{.clocks = {{900}, {1410}}, .repeats = 4, .timeout = {0.1}};
  const auto result = measure_switch_latency(*gpu_, options, clock_);
  ASSERT_TRUE(result.ok());
  for (const ClockSwitch& pair : result->switches) EXPECT_EQ(pair.late, 0);
}

TEST_F(SwitchLatencies, PairsThatWereNotTriedAreNotLate) {
  simulate("call_ms = 1\nswitch_ms = 10000\nswitch_spread = 0.0\nslow_pair_share = 0.0\n");
  const Instant end = clock_.now() + Seconds{0.5};
  SwitchLatencyOptions options{.clocks = {{900}, {1410}}, .repeats = 5, .timeout = {100}};
  options.cancelled = [&] { return clock_.now() > end; };
  const auto result = measure_switch_latency(*gpu_, options, clock_);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->cancelled);
  for (const ClockSwitch& pair : result->switches) EXPECT_EQ(pair.repetitions(), 0);
  EXPECT_LT((clock_.now() - end).value, 0.1) << "cancelling does not wait for a switch";
}

TEST_F(SwitchLatencies, WhatWasThereBeforeIsPutBack) {
  simulate("call_ms = 1\nswitch_ms = 5\n");
  ASSERT_TRUE(gpu_->set_locked_clocks(ClockDomain::kGraphics, {{600}, {1200}}).ok());
  int asked = 0;
  SwitchLatencyOptions options{.clocks = {{900}, {1410}}, .repeats = 10};
  options.cancelled = [&] { return ++asked > 5; };
  const auto result = measure_switch_latency(*gpu_, options, clock_);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->cancelled);
  EXPECT_TRUE(result->restored);
  const auto lock = gpu_->locked_clocks(ClockDomain::kGraphics);
  if (lock.ok()) {
    EXPECT_TRUE(result->knew_before);
    ASSERT_TRUE(lock->has_value());
    EXPECT_EQ((*lock)->highest.value, 1200);
  } else {
    EXPECT_FALSE(result->knew_before) << "then no lock is left";
    clock_.advance({2});
    EXPECT_EQ(gpu_->clock(ClockDomain::kGraphics)->value, 1410);
  }
}

TEST_F(SwitchLatencies, ClocksThatAreNotThereAreNamedWithTheNearest) {
  simulate("");
  const auto result = measure_switch_latency(*gpu_, {.clocks = {{901}, {1410}}}, clock_);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().text(), HasSubstr("the nearest is 900 MHz"));
}

TEST_F(SwitchLatencies, WithoutPermissionNothingIsMeasured) {
  simulate("[[fault]]\nkind = \"no_permission\"\n");
  const auto result = measure_switch_latency(*gpu_, {.clocks = {{900}, {1410}}}, clock_);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kNoPermission);
}

TEST_F(SwitchLatencies, WhatWasMeasuredBeforeAGpuIsLostIsKept) {
  simulate("call_ms = 1\nswitch_ms = 5\n[[fault]]\nkind = \"gpu_lost\"\nafter_calls = 2000\n");
  SwitchLatencyOptions options{.clocks = {{900}, {1155}, {1410}}, .repeats = 1000};
  const auto result = measure_switch_latency(*gpu_, options, clock_);
  ASSERT_TRUE(result.ok()) << result.error().text();
  ASSERT_TRUE(result->failure.has_value());
  EXPECT_EQ(result->failure->code, ErrorCode::kUnavailable);
  EXPECT_THAT(result->failure->text(), HasSubstr("could not be restored"));
  EXPECT_FALSE(result->restored);
  EXPECT_FALSE(result->cancelled);
  EXPECT_GT(result->repetitions(), 5);
  EXPECT_LT(result->repetitions(), 6000);
  int transitions = 0;
  for (const ClockSwitch& pair : result->switches) {
    transitions += static_cast<int>(pair.transitions.size());
  }
  EXPECT_GT(transitions, 5);
}

TEST_F(SwitchLatencies, AGpuThatIsLostBeforeAnythingIsMeasuredIsAnError) {
  simulate("[[fault]]\nkind = \"gpu_lost\"\nafter_calls = 3\n");
  const auto result = measure_switch_latency(*gpu_, {.clocks = {{900}, {1410}}}, clock_);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
}

TEST(SpreadClocks, TakesBothEnds) {
  std::vector<Megahertz> all;
  for (int clock = 210; clock <= 1410; clock += 15) all.push_back({clock});
  const auto some = spread_clocks(all, 4);
  ASSERT_EQ(some.size(), 4);
  EXPECT_EQ(some.front().value, 210);
  EXPECT_EQ(some.back().value, 1410);
  EXPECT_EQ(spread_clocks({{1}, {2}}, 5).size(), 2);
}

}  // namespace
}  // namespace harpe::device
