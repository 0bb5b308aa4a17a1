#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "harpe/base/source_tree_testing.h"
#include "harpe/plan/profile/check.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::plan {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Returns points of one instruction at 38 clocks without noise, to be corrupted.
std::vector<OperatingPoint> clean() {
  const auto profile = synthesize({.gpu = "a40", .stages = 1, .noise = 0});
  const auto points = profile->points(0, 0, InstructionKind::kForward);
  return {points.begin(), points.end()};
}

InstructionCheck check(std::vector<OperatingPoint> points, Watts blocking_power = {70},
                       InstructionKind kind = InstructionKind::kForward) {
  return check_profile(Profile({{0, 0, kind, std::move(points)}}), {{blocking_power}})
      .instructions.at(0);
}

TEST(CheckProfile, FindsNothingInACleanMeasurement) {
  EXPECT_THAT(check(clean()).suspicious, IsEmpty());
  for (const auto gpu : {"a100-sxm", "a40", "h100-sxm"}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const auto profile = synthesize({.gpu = gpu, .seed = seed});
      for (const InstructionCheck& found : check_profile(*profile).instructions) {
        EXPECT_THAT(found.missing, IsEmpty());
        for (const std::string& sentence : found.suspicious) {
          EXPECT_THAT(sentence, HasSubstr("power limit")) << gpu << " seed " << seed;
        }
      }
    }
  }
}

TEST(CheckProfile, EstimatesTheNoise) {
  for (const double noise : {0.001, 0.005, 0.02}) {
    const auto profile = synthesize({.gpu = "a40", .stages = 16, .noise = noise, .seed = 3});
    double time = 0, energy = 0;
    const ProfileCheck found = check_profile(*profile);
    for (const InstructionCheck& each : found.instructions) {
      time += each.time_noise;
      energy += each.energy_noise;
    }
    const double count = static_cast<double>(found.instructions.size());
    EXPECT_NEAR(time / count / noise, 1, 0.15);
    EXPECT_NEAR(energy / count / noise, 1, 0.3);
  }
}

TEST(CheckProfile, NamesNoiseWithWhichThereIsLittleToPlan) {
  for (const double noise : {0.02, 0.09}) {
    const auto profile = synthesize({.gpu = "a40", .stages = 2, .noise = noise, .seed = 3});
    const InstructionCheck found = check_profile(*profile).instructions.at(0);
    const auto is_noise = HasSubstr("time scatters by ");
    if (noise > kNoisyProfile) {
      EXPECT_THAT(found.suspicious, Contains(is_noise));
    } else {
      EXPECT_THAT(found.suspicious, Not(Contains(is_noise)));
    }
  }
}

TEST(CheckProfile, CountsParetoAndHullPoints) {
  const InstructionCheck found = check({{{1000}, {4}, {1000}},
                                        {{1100}, {3}, {1090}},
                                        {{1200}, {2}, {1100}},
                                        {{1300}, {1}, {2000}},
                                        {{1400}, {1}, {2100}}},
                                       {0});
  EXPECT_EQ(found.points, 5);
  EXPECT_EQ(found.pareto, 4);
  EXPECT_EQ(found.hull, 3);
  EXPECT_THAT(found.dominated, ElementsAre(1400_MHz));
  EXPECT_EQ(found.fastest, 1300_MHz);
  EXPECT_EQ(found.most_efficient, 1000_MHz);
}

TEST(CheckProfile, FindsAnOutlier) {
  for (const std::size_t at : {3u, 20u, 40u}) {
    auto points = clean();
    points[at].time.value *= 1.06;
    points[at].energy.value *= 0.9;
    const auto clock = std::to_string(points[at].clock.value) + " MHz";
    EXPECT_THAT(check(points).suspicious,
                ElementsAre(AllOf(HasSubstr("time at " + clock), HasSubstr("6 % above")),
                            AllOf(HasSubstr("energy at " + clock), HasSubstr(" % below"))));
  }
}

TEST(CheckProfile, FindsTimeThatRisesWithTheClock) {
  auto points = clean();
  for (std::size_t i = 20; i < points.size() - 8; ++i) points[i].time.value *= 1.10;
  EXPECT_THAT(check(points).suspicious, Contains(HasSubstr("time rises with the clock")));
}

TEST(CheckProfile, CallsASlowTopClockThrottled) {
  auto points = clean();
  points.back().time = points[points.size() - 2].time * 1.01;
  EXPECT_THAT(
      check(points).suspicious,
      Contains(AllOf(HasSubstr("1740 MHz is 1 % slower than 1725"), HasSubstr("power limit"))));
}

TEST(CheckProfile, FindsAPowerJump) {
  auto points = clean();
  for (std::size_t i = 0; i < 20; ++i) points[i].energy.value *= 0.7;
  EXPECT_THAT(check(points).suspicious, ElementsAre(HasSubstr("power jumps from")));
}

TEST(CheckProfile, FindsPowerThatNoGpuDraws) {
  auto points = clean();
  for (OperatingPoint& point : points) point.energy.value *= 8;
  EXPECT_THAT(check(points).suspicious, ElementsAre(AllOf(HasSubstr("draws over 1500 W at"),
                                                          HasSubstr("joules of one GPU"))));
}

TEST(CheckProfile, FindsComputingThatDrawsLessThanWaiting) {
  auto points = clean();
  for (OperatingPoint& point : points) point.energy.value *= 0.25;
  EXPECT_THAT(check(points).suspicious,
              ElementsAre(HasSubstr("less than the blocking power of 70 W")));
  EXPECT_THAT(check({{{0}, {1}, {40}}}, {70}, InstructionKind::kRecv).suspicious, IsEmpty());
}

TEST(CheckProfile, SaysWhenThereIsLittleToChooseFrom) {
  auto points = clean();
  points.resize(3);
  EXPECT_THAT(check(points).suspicious, ElementsAre(HasSubstr("has only 3 clocks")));
  points.resize(1);
  EXPECT_THAT(check(points).suspicious, ElementsAre(HasSubstr("has only 1 clock:")));
}

TEST(CheckProfile, ListsClocksLeftOutOfAGrid) {
  auto points = clean();
  points.erase(points.begin() + 10, points.begin() + 12);
  const int before = points[9].clock.value;
  EXPECT_THAT(check(points).missing, ElementsAre(Megahertz{before + 15}, Megahertz{before + 30}));
}

TEST(CheckProfile, DoesNotListClocksOfAnIrregularSweep) {
  EXPECT_THAT(
      check(
          {{{900}, {5}, {600}}, {{1000}, {4.5}, {600}}, {{1050}, {4}, {600}}, {{1410}, {3}, {700}}})
          .missing,
      IsEmpty());
}

TEST(CheckProfile, NotesCopiedStagesAndPartialKinds) {
  const auto points = clean();
  auto other = points;
  other[0].time.value *= 1.001;
  const Profile profile({{0, 0, InstructionKind::kForward, points},
                         {1, 0, InstructionKind::kForward, points},
                         {2, 0, InstructionKind::kForward, points},
                         {3, 0, InstructionKind::kForward, other},
                         {3, 0, InstructionKind::kLoad, {{{0}, {1}, {100}}}}});
  EXPECT_THAT(check_profile(profile).notes, ElementsAre(HasSubstr("stages 0 to 2 are identical"),
                                                        HasSubstr("only stage 3 has load rows")));
}

TEST(CheckProfile, UnderstandsThePublishedProfiles) {
  const std::filesystem::path data = measured_data() / "sosp24" / "emulation";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << data << " is missing";
  const auto bloom = read_profile(data / "bloom-176b_a100-sxm.csv");
  ASSERT_TRUE(bloom.ok());
  const ProfileCheck found = check_profile(*bloom, {{Watts{83.64}}});
  EXPECT_EQ(found.instructions[0].fastest, 1395_MHz);
  EXPECT_THAT(found.instructions[0].suspicious,
              ElementsAre(AllOf(HasSubstr("1410 MHz is 0.38 % slower than 1395 MHz"),
                                HasSubstr("power limit"))));
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("stages 0 to 6 are identical")));
}

TEST(CheckProfile, TakesPointsWithOtherKnobsForAnotherCurve) {
  std::vector<OperatingPoint> points = clean();
  const std::size_t clocks = points.size();
  // Points that take 1.5 times as long: in one curve, they would make a saw.
  for (std::size_t i = 0; i < clocks; ++i) {
    OperatingPoint slower = points[i];
    slower.knobs.label = *Label::of("slow");
    slower.time.value *= 1.5;
    slower.energy.value *= 1.6;
    points.push_back(slower);
  }
  const auto found =
      check_profile(Profile({{0, 0, InstructionKind::kForward, points}}), {{Watts{70}}})
          .instructions;
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].knobs.empty());
  EXPECT_EQ(found[1].knobs.label.text(), "slow");
  const InstructionCheck alone = check(clean());
  for (const InstructionCheck& curve : found) {
    EXPECT_EQ(curve.points, static_cast<int>(clocks));
    EXPECT_THAT(curve.suspicious, IsEmpty());
    EXPECT_THAT(curve.missing, IsEmpty());
    EXPECT_EQ(curve.fastest, alone.fastest);
    EXPECT_NEAR(curve.time_noise, alone.time_noise, 1e-9);
  }
  EXPECT_EQ(found[0].pareto, alone.pareto);
  EXPECT_EQ(found[0].hull, alone.hull);
  EXPECT_EQ(found[1].dominated.size(), clocks - static_cast<std::size_t>(found[1].pareto));
}

}  // namespace
}  // namespace harpe::plan
