#include <gtest/gtest.h>

#include "harpe/training/client/pacer.h"

namespace harpe::training {
namespace {

constexpr auto kForward = InstructionKind::kForward;
constexpr auto kBackward = InstructionKind::kBackward;

Instant at(double seconds) {
  return Instant{} + Seconds{seconds};
}

/// Asks 10 s ahead, for any clock.
const plan::AskingAhead kTenSeconds = plan::AskingAhead::by(10_s);

LookAhead::Running running(int position, int clock, int next, std::uint32_t step = 1) {
  return {position, kForward, 0, {clock}, {next}, step};
}

TEST(LookAhead, AsksSoEarlyThatTheClockComesAsTheInstructionEnds) {
  LookAhead ahead(4, kTenSeconds);
  ahead.begin(running(0, 1410, 900), at(0));
  EXPECT_FALSE(ahead.ask()) << "how long it takes is not known yet";
  ahead.end(at(60));
  ahead.begin(running(0, 1410, 900, 7), at(100));
  ASSERT_TRUE(ahead.ask());
  EXPECT_EQ(ahead.ask()->at, at(150));
  EXPECT_EQ(ahead.ask()->clock, 900_MHz);
  EXPECT_EQ(ahead.ask()->step, 7);
  ahead.taken();
  EXPECT_FALSE(ahead.ask());
}

TEST(LookAhead, NeverAsksSoEarlyThatTheRunningOneIsCutInto) {
  LookAhead ahead(1, kTenSeconds);
  for (const double took : {60.0, 58.0, 59.0, 57.0}) {
    ahead.begin(running(0, 1410, 900), at(0));
    ahead.end(at(took));
  }
  ahead.begin(running(0, 1410, 900), at(0));
  EXPECT_EQ(ahead.ask()->at, at(50)) << "the longest of the last few";
  ahead.end(at(57));
  ahead.begin(running(0, 1410, 900), at(0));
  EXPECT_EQ(ahead.ask()->at, at(49)) << "60 s is forgotten";
}

TEST(LookAhead, AsksByTheLeastLatencyOfTheNextClock) {
  LookAhead ahead(1, plan::AskingAhead(LatencyByClock({{900_MHz, 40_s, 20_s}, {1200_MHz, 10_s}})));
  ahead.begin(running(0, 1410, 900), at(0));
  ahead.end(at(64));
  ahead.begin(running(0, 1410, 900), at(0));
  EXPECT_EQ(ahead.ask()->at, at(50)) << "0.7 of 20 s";
  ahead.begin(running(0, 1410, 1200), at(0));
  EXPECT_EQ(ahead.ask()->at, at(57)) << "0.7 of 10 s, the shortest latency of all";
}

TEST(LookAhead, ExpectsTheShortestOfDurationsThatVaryLittle) {
  LookAhead ahead(1, plan::AskingAhead(10_s));
  for (const double took : {60.0, 58.0, 59.0, 57.0}) {
    ahead.begin(running(0, 1410, 900), at(0));
    ahead.end(at(took));
  }
  ahead.begin(running(0, 1410, 900), at(0));
  EXPECT_EQ(ahead.ask()->at, at(50)) << "0.7 of 10 s before 57 s; 10 s later the longest has ended";
  ahead.end(at(64));
  ahead.begin(running(0, 1410, 900), at(0));
  EXPECT_EQ(ahead.ask()->at, at(54)) << "a clock that takes 10 s does not cut into 64 s";
}

TEST(LookAhead, DurationsOfAnotherClockSayNothing) {
  LookAhead ahead(2, kTenSeconds);
  ahead.begin(running(0, 1410, 900), at(0));
  ahead.end(at(60));
  ahead.begin(running(0, 1200, 900), at(0));
  EXPECT_FALSE(ahead.ask());
  ahead.end(at(70));
  // Another position with the same kind and clock has the same duration.
  ahead.begin(running(1, 1200, 900), at(0));
  ASSERT_TRUE(ahead.ask());
  EXPECT_EQ(ahead.ask()->at, at(60));
  ahead.end(at(70));
  ahead.begin({1, kBackward, 0, {1410}, {900}, 1}, at(0));
  EXPECT_FALSE(ahead.ask()) << "another kind";
}

TEST(LookAhead, AsksAtOnceForWhatIsShorterThanASwitch) {
  LookAhead ahead(1, kTenSeconds);
  ahead.begin(running(0, 1410, 900), at(0));
  ahead.end(at(4));
  ahead.begin(running(0, 1410, 900), at(20));
  EXPECT_EQ(ahead.ask()->at, at(20));
}

TEST(LookAhead, AsksForNothingWhereTheClockStaysOrTheInstructionIsUnknown) {
  LookAhead ahead(1, kTenSeconds);
  ahead.begin(running(0, 1410, 1410), at(0));
  ahead.end(at(60));
  ahead.begin(running(0, 1410, 1410), at(0));
  EXPECT_FALSE(ahead.ask());
  ahead.begin(running(-1, 1410, 900), at(0));
  EXPECT_FALSE(ahead.ask());
  ahead.begin(running(5, 1410, 900), at(0));
  EXPECT_FALSE(ahead.ask());
  ahead.end(at(1));
}

}  // namespace
}  // namespace harpe::training
