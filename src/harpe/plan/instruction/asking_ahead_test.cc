#include "harpe/plan/instruction/asking_ahead.h"

#include <gtest/gtest.h>

#include <array>

namespace harpe::plan {
namespace {

constexpr std::array kClocks = {900_MHz, 1200_MHz, 1410_MHz};

TEST(AskingAhead, TakesAShareOfTheLeastLatencyOfTheClock) {
  const AskingAhead asking(
      LatencyByClock({{900_MHz, 0.1_s, 0.05_s}, {1410_MHz, 0.02_s, std::nullopt}}));
  EXPECT_DOUBLE_EQ(asking.time(900_MHz).value, 0.035);
  EXPECT_DOUBLE_EQ(asking.time(1410_MHz).value, 0.014) << "the shortest latency of all";
  EXPECT_DOUBLE_EQ(asking.time(1200_MHz).value, 0.014) << "the shorter of its neighbours'";
  EXPECT_EQ(asking.least(900_MHz), 0.05_s);
  EXPECT_TRUE(asking.is_ahead());
  EXPECT_FALSE(AskingAhead(LatencyByClock()).is_ahead());
}

TEST(AskingAhead, ATimeThatIsGivenHoldsForEveryClock) {
  const AskingAhead asking = AskingAhead::by(0.007_s);
  EXPECT_EQ(asking.time(900_MHz), 0.007_s);
  EXPECT_EQ(asking.least(900_MHz), 0.007_s);
  EXPECT_FALSE(AskingAhead::by(0_s).is_ahead());
}

TEST(RemainingLatency, IsTheLatencyLessTheTimeAskedAhead) {
  const LatencyByClock one = remaining_latency(0.01_s, kClocks, 0.03_s);
  EXPECT_FALSE(one.is_table());
  EXPECT_DOUBLE_EQ(one.longest().value, 0.003);
  const LatencyByClock table = remaining_latency(
      LatencyByClock({{900_MHz, 0.02_s, 0.01_s}, {1410_MHz, 0.01_s, std::nullopt}}), kClocks,
      0.03_s);
  EXPECT_DOUBLE_EQ(table.to(900_MHz).value, 0.02 - 0.007);
  EXPECT_DOUBLE_EQ(table.to(1410_MHz).value, 0.01 - 0.007);
}

TEST(RemainingLatency, IsTheWholeLatencyLessWhatAShortInstructionLeavesForAsking) {
  // A clock is requested as soon as the client has seen the instruction before it begin.
  EXPECT_DOUBLE_EQ(remaining_latency(0.01_s, kClocks, 0.005_s).longest().value, 0.006);
  EXPECT_DOUBLE_EQ(remaining_latency(0.01_s, kClocks, 0.0005_s).longest().value, 0.01);
}

TEST(RemainingLatency, BetweenRowsIsNoLessThanTheClientLeaves) {
  // The latency of one row, 30 ms, less only 0.7 of the least latency of the other row, 2 ms.
  const LatencyByClock latency({{900_MHz, 0.01_s, 0.002_s}, {1410_MHz, 0.03_s, 0.025_s}});
  const LatencyByClock remaining = remaining_latency(latency, kClocks, 1_s);
  EXPECT_DOUBLE_EQ(remaining.to(900_MHz).value, 0.01 - 0.0014);
  EXPECT_DOUBLE_EQ(remaining.to(1410_MHz).value, 0.03 - 0.0175);
  EXPECT_DOUBLE_EQ(remaining.to(1200_MHz).value, 0.03 - 0.0014);
}

TEST(RemainingLatency, OfFreeSwitchingIsNone) {
  EXPECT_EQ(remaining_latency(0_s, kClocks, 0.03_s), LatencyByClock());
}

}  // namespace
}  // namespace harpe::plan
