#include "harpe/plan/baseline/one_setting.h"

#include <gmock/gmock.h>

#include "harpe/plan/profile/synth.h"

namespace harpe::plan {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

OneSettingPoint point(int clock, double time, double energy, double limit = 0) {
  return {.setting = {Megahertz{clock}, {.power_limit = Watts{limit}}},
          .iteration_time = Seconds{time},
          .iteration_energy = Joules{energy}};
}

TEST(OneSetting, KeepsTheClocksThatNoOtherBeats) {
  const auto curve =
      one_setting_curve({point(1400, 1.0, 100), point(1300, 1.1, 80), point(1200, 1.2, 85),
                         point(1100, 1.3, 70), point(1400, 1.0, 60, 300)},
                        VariedKnob::kClock);
  ASSERT_THAT(curve, SizeIs(3));
  EXPECT_EQ(curve[0].setting.clock, Megahertz{1400});
  EXPECT_EQ(curve[2].setting.clock, Megahertz{1100});
}

TEST(OneSetting, ALimitLeavesTheClockToTheGpu) {
  const auto curve = one_setting_curve({point(1400, 1.0, 100, 400), point(1300, 1.1, 70, 400),
                                        point(1300, 1.2, 80, 300), point(1400, 1.0, 100)},
                                       VariedKnob::kPowerLimit);
  ASSERT_THAT(curve, SizeIs(2));
  EXPECT_EQ(curve[0].iteration_time, Seconds{1.0}) << "400 W at its highest clock";
  EXPECT_EQ(curve[1].setting.knobs.power_limit, Watts{300});
  EXPECT_THAT(one_setting_curve({point(1400, 1.0, 100)}, VariedKnob::kPowerLimit), IsEmpty());
}

TEST(OneSetting, RivalsAreNoSlowerOrTheNextThatSaves) {
  const std::vector<OneSettingPoint> curve = {point(1400, 1.0, 100), point(1300, 1.1, 80),
                                              point(1100, 1.3, 70)};
  const Rivals fast = rivals_of(curve, Seconds{1.0005}, Joules{75}, Joules{100});
  EXPECT_EQ(fast.no_slower->setting.clock, Megahertz{1400});
  EXPECT_EQ(fast.next_cheaper->setting.clock, Megahertz{1300});
  EXPECT_EQ(fast.as_cheap->setting.clock, Megahertz{1100});
  const Rivals slow = rivals_of(curve, Seconds{1.2}, Joules{75}, Joules{100});
  EXPECT_EQ(slow.no_slower->setting.clock, Megahertz{1300});
  EXPECT_FALSE(slow.next_cheaper) << "the first one saves";
  EXPECT_FALSE(rivals_of(curve, Seconds{0.9}, Joules{75}, Joules{100}).no_slower);
  EXPECT_FALSE(rivals_of({}, Seconds{1}, Joules{75}, Joules{100}).next_cheaper);
}

TEST(OneSetting, WhatSavesAsMuchAsThePlanIsTheFastestThatDoes) {
  const std::vector<OneSettingPoint> curve = {point(1400, 1.0, 100), point(1300, 1.1, 80),
                                              point(1200, 1.2, 75), point(1100, 1.3, 70)};
  const auto as_cheap = [&](double time, double energy) {
    const Rivals rivals = rivals_of(curve, Seconds{time}, Joules{energy}, Joules{100});
    return rivals.as_cheap ? rivals.as_cheap->setting.clock : Megahertz{0};
  };
  EXPECT_EQ(as_cheap(1.1, 76), Megahertz{1200}) << "the first that is slower";
  EXPECT_EQ(as_cheap(1.0, 81), Megahertz{0}) << "it is the next that saves anything";
  EXPECT_EQ(as_cheap(1.1, 80), Megahertz{0}) << "the one that is no slower saves as much";
}

TEST(OneSetting, AllWaitForAStraggler) {
  const auto waits =
      one_setting_curve({point(1400, 1.0, 100), point(1300, 1.1, 80), point(1100, 1.3, 70)},
                        VariedKnob::kClock, {.until = Seconds{1.2}, .power = Watts{50}});
  ASSERT_THAT(waits, SizeIs(2));
  EXPECT_EQ(waits[0].setting.clock, Megahertz{1300});
  EXPECT_NEAR(waits[0].iteration_energy.value, 85, 1e-9);
}

TEST(OneSetting, ASlowerClockMayBeTheBestThatWaits) {
  const auto waits =
      one_setting_curve({point(1400, 1.0, 80), point(1300, 1.1, 82)}, VariedKnob::kClock,
                        {.until = Seconds{1.2}, .power = Watts{50}});
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_EQ(waits[0].setting.clock, Megahertz{1300}) << "it needs more, but waits for less";
}

/// No single clock is better than the best plan for the same iteration time.
TEST(OneSetting, IsNeverBetterThanThePlan) {
  const auto schedule = one_f_one_b({.stages = 4, .micro_batches = 8});
  const auto profile = synthesize({.gpu = "h100-sxm", .stages = 4, .seed = 3});
  const auto frontier = characterize(schedule, *profile, {.blocking_power = Watts{80}});
  ASSERT_TRUE(frontier.ok());
  const auto curve = one_setting_curve(frontier->one_setting(), VariedKnob::kClock);
  ASSERT_GE(curve.size(), 10U);
  for (const OneSettingPoint& clock : curve) {
    const Joules bound = frontier->lower_bound(clock.iteration_time);
    EXPECT_GE(clock.iteration_energy, bound);
  }
}

}  // namespace
}  // namespace harpe::plan
