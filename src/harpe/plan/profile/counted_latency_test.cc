#include "harpe/plan/profile/counted_latency.h"

#include <gtest/gtest.h>

namespace harpe::plan {
namespace {

Profile profile_with(const std::string& shortest) {
  return *parse_profile(
      "stage,instruction,frequency,time,energy\n0,forward,1410," + shortest +
          ",3\n0,forward,900,0.05,2\n0,backward,1410,0.06,6\n0,backward,1200,0.07,5\n"
          "0,optimizer,,0.0001,1\n",
      "profile.csv");
}

TEST(CountedLatency, IsTheWholeForAnyClient) {
  const LatencyByClock latency({{900_MHz, 0.02_s, 0.01_s}, {1410_MHz, 0.01_s, std::nullopt}});
  EXPECT_EQ(counted_latency(latency, ClockClient::kAny, profile_with("0.03")),
            LatencyByClock({{900_MHz, 0.02_s}, {1410_MHz, 0.01_s}}));
  EXPECT_EQ(counted_latency(0.01_s, ClockClient::kAny, profile_with("0.03")),
            LatencyByClock(0.01_s));
}

TEST(CountedLatency, IsWhatRemainsForHarpesClientAtTheClocksOfTheProfile) {
  const LatencyByClock latency({{900_MHz, 0.02_s, 0.01_s}, {1410_MHz, 0.01_s, std::nullopt}});
  const LatencyByClock counted =
      counted_latency(latency, ClockClient::kHarpe, profile_with("0.03"));
  ASSERT_EQ(counted.entries().size(), 3);
  EXPECT_DOUBLE_EQ(counted.to(900_MHz).value, 0.013);
  EXPECT_DOUBLE_EQ(counted.to(1200_MHz).value, 0.013);
  EXPECT_DOUBLE_EQ(counted.to(1410_MHz).value, 0.003);
}

TEST(CountedLatency, IsLongerWhereAComputationIsShorterThanTheTimeAskedAhead) {
  // Fixed-time instructions are not announced: the clock after one is requested before it.
  EXPECT_DOUBLE_EQ(
      counted_latency(0.01_s, ClockClient::kHarpe, profile_with("0.004")).longest().value, 0.007);
  EXPECT_EQ(counted_latency(0.01_s, ClockClient::kHarpe, Profile()), LatencyByClock(0.01_s));
}

}  // namespace
}  // namespace harpe::plan
