#include "harpe/training/client/clock_readings.h"

#include <gtest/gtest.h>

#include <vector>

#include "harpe/base/clock.h"

namespace harpe::training {
namespace {

class ClockedGpu final : public Gpu {
 public:
  Megahertz now{1980};
  bool fails = false;
  int reads = 0;
  const GpuIdentity& identity() const override { return identity_; }
  Result<Megahertz> clock(ClockDomain) override {
    ++reads;
    if (fails) return not_supported("a clock");
    return now;
  }

 private:
  GpuIdentity identity_;
};

TimedInstruction instruction(double begin, double end) {
  const Instant start{};
  return {.span = {start + Seconds{begin}, start + Seconds{end}}};
}

struct ClockReadingsTest : ::testing::Test {
  void look_at(double seconds, int clock) {
    time.advance(Instant{} + Seconds{seconds} - time.now());
    gpu.now = {clock};
    readings.look(gpu);
  }
  ManualClock time{Instant{}};
  ClockedGpu gpu;
  ClockReadings readings{time};
};

TEST_F(ClockReadingsTest, TellsTheMedianClockWhileInstructionsRan) {
  readings.enable(true);
  // A GPU that waits may have another clock.
  for (const auto& [at, clock] :
       {std::pair{0.5, 345}, {1.1, 1800}, {1.5, 1755}, {1.9, 1740}, {2.5, 345}, {3.2, 1755}})
    look_at(at, clock);
  const std::vector<TimedInstruction> first{instruction(1, 2), instruction(3, 4)};
  EXPECT_EQ(readings.during(first), Megahertz{1755});
  const std::vector<TimedInstruction> later{instruction(5, 6)};
  EXPECT_EQ(readings.during(later), Megahertz{0}) << "no reading lies in it";
  EXPECT_EQ(readings.during({}), Megahertz{0});
}

TEST_F(ClockReadingsTest, ReadsNothingUntilItIsAskedTo) {
  look_at(1, 1755);
  EXPECT_EQ(gpu.reads, 0);
  readings.enable(true);
  look_at(2, 1755);
  EXPECT_EQ(gpu.reads, 1);
}

TEST_F(ClockReadingsTest, AGpuThatDoesNotTellItsClockHasNone) {
  readings.enable(true);
  gpu.fails = true;
  look_at(1.5, 1755);
  const std::vector<TimedInstruction> ran{instruction(1, 2)};
  EXPECT_EQ(readings.during(ran), Megahertz{0});
}

}  // namespace
}  // namespace harpe::training
