#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "harpe/lab/emulation/throttled_pipelines.h"

namespace harpe::lab {
namespace {

Profile forwards(std::vector<OperatingPoint> points) {
  return Profile({{.stage = 0, .kind = InstructionKind::kForward, .points = std::move(points)}});
}

TEST(PowerLimit, KeepsSettingsAndTakesWhatTheHighestClockBelowItTakes) {
  // The points draw 100, 200, 300 and 400 W.
  const Profile limited = at_power_limit(forwards({{1000_MHz, 4_s, 400_J},
                                                   {1100_MHz, 3_s, 600_J},
                                                   {1200_MHz, 2_s, 600_J},
                                                   {1300_MHz, 1_s, 400_J}}),
                                         250_W);
  const auto points = limited.points(0, 0, InstructionKind::kForward);
  ASSERT_EQ(points.size(), 4U);
  EXPECT_EQ(points[0], (OperatingPoint{1000_MHz, 4_s, 400_J}));
  EXPECT_EQ(points[1], (OperatingPoint{1100_MHz, 3_s, 600_J}));
  EXPECT_EQ(points[2], (OperatingPoint{1200_MHz, 3_s, 600_J}));
  EXPECT_EQ(points[3], (OperatingPoint{1300_MHz, 3_s, 600_J}));
}

TEST(PowerLimit, AboveWhichAllClocksAreLeavesTheLowest) {
  const Profile limited =
      at_power_limit(forwards({{1000_MHz, 4_s, 400_J}, {1100_MHz, 3_s, 600_J}}), 50_W);
  for (const OperatingPoint& point : limited.points(0, 0, InstructionKind::kForward)) {
    EXPECT_EQ(point.time, 4_s);
    EXPECT_EQ(point.energy, 400_J);
  }
}

TEST(PowerLimit, ComparesPointsWithTheSameKnobsOnly) {
  const Knobs slow_memory{.memory_clock = 810_MHz};
  const Profile limited = at_power_limit(forwards({{1000_MHz, 4_s, 400_J},
                                                   {1000_MHz, 5_s, 300_J, slow_memory},
                                                   {1100_MHz, 3_s, 600_J},
                                                   {1100_MHz, 4_s, 320_J, slow_memory}}),
                                         150_W);
  const auto points = limited.points(0, 0, InstructionKind::kForward);
  ASSERT_EQ(points.size(), 4U);
  for (const OperatingPoint& point : points) {
    const bool is_at_full_memory = point.knobs == Knobs{};
    if (point.clock == 1100_MHz) {
      EXPECT_EQ(point.time, 4_s);
      EXPECT_EQ(point.energy, is_at_full_memory ? 400_J : 320_J);
    }
  }
}

}  // namespace
}  // namespace harpe::lab
