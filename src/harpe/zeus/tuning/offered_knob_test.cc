// The settings to try.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harpe/zeus/tuning/job_tuning.h"

namespace harpe::zeus {
namespace {

using ::testing::ElementsAre;

FoundGpu a40() {
  FoundGpu gpu;
  for (int clock = 210; clock <= 1740; clock += 15) gpu.offer.clocks.push_back({clock});
  gpu.offer.limits = PowerLimitRange{{100}, {300}, {300}};
  gpu.offer.allowed_clocks = {{{210}, {1740}}};
  gpu.offer.allowed_limits = {{{100}, {300}}};
  gpu.found.power_limit = Watts{300};
  return gpu;
}

Knob clocks(const FoundGpu& gpu) {
  return clock_knob(std::vector{gpu});
}
Knob limits(const FoundGpu& gpu) {
  return limit_knob(std::vector{gpu});
}

TEST(OfferedKnob, ClocksReachFromTheHighestToBelowAHalf) {
  const Knob knob = clocks(a40());
  EXPECT_EQ(knob.kind(), KnobKind::kGraphicsClock);
  EXPECT_EQ(knob.size(), 32U);
  EXPECT_EQ(knob[0], 1740);
  EXPECT_EQ(knob[1], 1725);
  EXPECT_EQ(knob[31], 795);
}

TEST(OfferedKnob, LimitsReachFromTheOneFoundToTheLowest) {
  const Knob knob = limits(a40());
  EXPECT_EQ(knob.kind(), KnobKind::kPowerLimit);
  EXPECT_EQ(knob.size(), 21U);
  EXPECT_EQ(knob[0], 300);
  EXPECT_EQ(knob[1], 290);
  EXPECT_EQ(knob[20], 100);
}

TEST(OfferedKnob, NothingIsRaisedAboveWhatWasFound) {
  FoundGpu gpu = a40();
  gpu.found.power_limit = Watts{200};
  gpu.found.graphics_lock = node::ClockLock{ClockRange{{210}, {1200}}};
  EXPECT_EQ(limits(gpu)[0], 200);
  EXPECT_EQ(clocks(gpu)[0], 1200);
}

TEST(OfferedKnob, APolicyNarrowsWhatIsBelowTheOneFound) {
  FoundGpu gpu = a40();
  gpu.offer.allowed_limits = {{{150}, {180}}, {{240}, {250}}};
  EXPECT_THAT(limits(gpu).settings(), ElementsAre(300, 250, 240, 180, 170, 160, 150));
  gpu.offer.allowed_clocks = {{{1700}, {1740}}};
  EXPECT_THAT(clocks(gpu).settings(), ElementsAre(1740, 1725, 1710));
  gpu.offer.allowed_clocks = {};
  gpu.offer.allowed_limits = {};
  EXPECT_FALSE(clocks(gpu).can_choose());
  EXPECT_FALSE(limits(gpu).can_choose());
}

TEST(OfferedKnob, OfSeveralGpusOnlyWhatAllMayBeSetTo) {
  FoundGpu narrow = a40();
  narrow.offer.allowed_limits = {{{200}, {220}}};
  narrow.offer.allowed_clocks = {{{1500}, {1530}}};
  const std::vector<FoundGpu> gpus = {a40(), narrow};
  EXPECT_THAT(limit_knob(gpus).settings(), ElementsAre(300, 220, 210, 200));
  EXPECT_THAT(clock_knob(gpus).settings(), ElementsAre(1740, 1530, 1515, 1500));
}

TEST(OfferedKnob, AGpuThatTellsNothingHasNone) {
  EXPECT_EQ(clocks({}).size(), 0U);
  EXPECT_EQ(limits({}).size(), 0U);
  EXPECT_EQ(limit_knob({}).size(), 0U);
  EXPECT_EQ(clock_knob({}).size(), 0U);
}

}  // namespace
}  // namespace harpe::zeus
