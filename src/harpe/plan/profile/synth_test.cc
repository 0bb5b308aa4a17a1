#include "harpe/plan/profile/synth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "harpe/base/digest.h"
#include "harpe/plan/profile/check.h"

namespace harpe::plan {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const GpuModel& model(std::string_view wanted) {
  const auto& models = gpu_models();
  return *std::find_if(models.begin(), models.end(),
                       [&](const GpuModel& gpu) { return gpu.name == wanted; });
}

/// Returns points at all clocks of a profile, by rising clock, without noise.
std::vector<OperatingPoint> forward(std::string_view gpu) {
  const auto profile = synthesize({.gpu = gpu, .stages = 1, .noise = 0});
  const auto points = profile->points(0, 0, InstructionKind::kForward);
  return {points.begin(), points.end()};
}

OperatingPoint cheapest(const std::vector<OperatingPoint>& points) {
  return *std::min_element(points.begin(), points.end(),
                           [](const auto& a, const auto& b) { return a.energy < b.energy; });
}

OperatingPoint fastest(const std::vector<OperatingPoint>& points) {
  return *std::min_element(points.begin(), points.end(),
                           [](const auto& a, const auto& b) { return a.time < b.time; });
}

TEST(Synthesize, GivesTheSameBytesWithEveryCompiler) {
  const auto profile = synthesize({.split_backward = true, .recompute = true});
  ASSERT_TRUE(profile.ok());
  EXPECT_EQ(fnv1a(profile_csv(*profile)), 18026957999905351286u);
  const auto other = synthesize({.gpu = "a100-pcie", .stages = 3, .chunks = 2, .seed = 7});
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(fnv1a(profile_csv(*other)), 6791095408942621214u);
}

TEST(Synthesize, OtherSeedsGiveOtherNoise) {
  EXPECT_NE(profile_csv(*synthesize({.seed = 1})), profile_csv(*synthesize({.seed = 2})));
  EXPECT_EQ(profile_csv(*synthesize({.seed = 2})), profile_csv(*synthesize({.seed = 2})));
}

TEST(Synthesize, IsReadBackWithoutLoss) {
  for (const GpuModel& gpu : gpu_models()) {
    const std::string csv = profile_csv(*synthesize({.gpu = gpu.name, .chunks = 2}));
    const auto read = parse_profile(csv, "p.csv");
    ASSERT_TRUE(read.ok()) << read.error().text();
    EXPECT_EQ(profile_csv(*read), csv);
  }
}

TEST(Synthesize, SaysSoAndWhateverIsMadeOfItDoes) {
  const Profile profile = *synthesize({.stages = 2});
  EXPECT_TRUE(profile.is_synthetic());
  const std::string csv = profile_csv(profile, "of a test");
  EXPECT_THAT(csv, StartsWith("# Synthetic profile, not measured on real GPUs\n# of a test\n"));
  EXPECT_TRUE(parse_profile(csv, "again.csv")->is_synthetic());
  EXPECT_TRUE(fit_profile(profile).is_synthetic());
  const auto entries = profile.entries();
  EXPECT_TRUE(profile.with_entries({entries.begin(), entries.end()}).is_synthetic());

  const Profile measured({entries.begin(), entries.end()});
  EXPECT_FALSE(measured.is_synthetic());
  EXPECT_THAT(profile_csv(measured, "of a test"), StartsWith("# of a test\n"));
  EXPECT_FALSE(fit_profile(measured).is_synthetic());
}

TEST(Synthesize, ResemblesTheMeasuredA100SxmStages) {
  const auto points = forward("a100-sxm");
  EXPECT_EQ(points.size(), 38u);
  EXPECT_EQ(points.front().clock, 855_MHz);
  EXPECT_EQ(points.back().clock, 1410_MHz);
  const OperatingPoint& top = points.back();
  EXPECT_GT((top.energy / top.time).value, 460);
  EXPECT_LT((top.energy / top.time).value, 480);
  const OperatingPoint best = cheapest(points);
  EXPECT_GE(best.clock, 1065_MHz);
  EXPECT_LE(best.clock, 1080_MHz);
  EXPECT_GT(best.time / top.time, 1.20);
  EXPECT_LT(best.time / top.time, 1.25);
  EXPECT_NEAR(points.front().time / top.time, 1.54, 0.02);
}

TEST(Synthesize, TheA100PcieIsFastestBelowItsTopClock) {
  const auto points = forward("a100-pcie");
  const OperatingPoint& top = points.back();
  EXPECT_NEAR((top.energy / top.time).value, 300, 1);
  EXPECT_LT(fastest(points).clock, top.clock);
  EXPECT_GT(top.time / fastest(points).time, 1.002);
  EXPECT_EQ(cheapest(points).clock, 1050_MHz);
}

TEST(Synthesize, AnH100Loses5To7PercentOfSpeedPer100Megahertz) {
  const GpuModel& gpu = model("h100-sxm");
  for (int clock = 1980; clock >= 1480; clock -= 100) {
    const double loss =
        1 - run_on(gpu, {clock}, 1.0_s, 0).time / run_on(gpu, {clock - 100}, 1.0_s, 0).time;
    EXPECT_GE(loss, 0.0495) << clock;
    EXPECT_LE(loss, 0.07) << clock;
  }
  const OperatingPoint top = run_on(gpu, gpu.max_clock, 1.0_s, 0);
  EXPECT_LE(top.energy.value, 700);
}

TEST(Synthesize, EveryModelHasItsLeastEnergyBetweenItsClocksAndSavesWhatMeasuredGpusDo) {
  for (const GpuModel& gpu : gpu_models()) {
    SCOPED_TRACE(gpu.name);
    const auto points = forward(gpu.name);
    for (std::size_t i = 1; i < points.size(); ++i) {
      const Watts below = points[i - 1].energy / points[i - 1].time;
      EXPECT_GE((points[i].energy / points[i].time).value, below.value * (1 - 1e-6))
          << points[i].clock.value;
    }
    const OperatingPoint best = cheapest(points);
    EXPECT_GT(best.clock, points.front().clock);
    EXPECT_LT(best.clock, points.back().clock);
    const double saving = 1 - best.energy / fastest(points).energy;
    EXPECT_GT(saving, 0.05);
    EXPECT_LT(saving, 0.35);
  }
}

TEST(RunOn, FollowsThePowerLimitSweepOfAnA40) {
  // ResNet-50 training, 40 steps at each limit, as published with Zeus: W, s, J.
  constexpr double kSweep[][3] = {{300, 24.01, 6225}, {275, 24.06, 6122}, {250, 24.16, 5916},
                                  {225, 24.55, 5500}, {200, 25.19, 5018}, {175, 27.94, 4867},
                                  {150, 36.85, 5512}, {125, 56.48, 7072}, {100, 69.36, 8034}};
  GpuModel gpu = model("a40");
  for (const auto& [limit, time, energy] : kSweep) {
    gpu.power_limit = {limit};
    const OperatingPoint point = run_on(gpu, gpu.max_clock, 23.947_s, 0.155);
    EXPECT_NEAR(point.time.value / time, 1, 0.01) << limit;
    EXPECT_NEAR(point.energy.value / energy, 1, 0.01) << limit;
  }
}

TEST(RunOn, TimeScalesWithTheClockAndPowerFallsBelowTheKneeInProportion) {
  const GpuModel& gpu = model("a100-sxm");
  const OperatingPoint a = run_on(gpu, 900_MHz, 1.0_s, 0), b = run_on(gpu, 600_MHz, 1.0_s, 0);
  EXPECT_NEAR(b.time / a.time, 1.5, 1e-12);
  const double dynamic_a = (a.energy / a.time - gpu.static_power).value;
  const double dynamic_b = (b.energy / b.time - gpu.static_power).value;
  EXPECT_NEAR(dynamic_a / dynamic_b, 1.5, 1e-12);
}

TEST(Synthesize, KeepsToTheAskedTimesAndImbalance) {
  const auto profile =
      synthesize({.stages = 6, .forward_seconds = 0.08, .imbalance = 1.3, .noise = 0});
  double sum = 0, least = 1e9, most = 0;
  for (int stage = 0; stage < 6; ++stage) {
    const double time = profile->points(stage, 0, InstructionKind::kForward).back().time.value;
    sum += time;
    least = std::min(least, time);
    most = std::max(most, time);
  }
  EXPECT_NEAR(sum / 6, 0.08, 1e-6);
  EXPECT_NEAR(most / least, 1.3, 1e-5);
}

TEST(Synthesize, AddsTheKindsAskedFor) {
  const auto has = [](const Profile& profile, InstructionKind kind) {
    return !profile.points(0, 0, kind).empty();
  };
  const auto plain = synthesize({});
  const auto rich = synthesize({.split_backward = true, .recompute = true});
  EXPECT_FALSE(has(*plain, InstructionKind::kWeight));
  EXPECT_FALSE(has(*plain, InstructionKind::kRecompute));
  EXPECT_TRUE(has(*rich, InstructionKind::kWeight));
  EXPECT_TRUE(has(*rich, InstructionKind::kRecompute));
  const auto top = [](const Profile& profile, InstructionKind kind) {
    return profile.points(0, 0, kind).back().time.value;
  };
  EXPECT_NEAR(top(*rich, InstructionKind::kBackward) + top(*rich, InstructionKind::kWeight),
              top(*plain, InstructionKind::kBackward), 0.01 * 0.1);
}

TEST(Synthesize, NoiseIsAsLargeAsAsked) {
  const auto noisy = synthesize({.stages = 16, .imbalance = 1, .noise = 0.01, .seed = 5});
  const auto exact = synthesize({.stages = 16, .imbalance = 1, .noise = 0});
  double squares = 0, sum = 0;
  int count = 0;
  for (const InstructionProfile& entry : exact->entries()) {
    const auto points = noisy->points(entry.stage, entry.chunk, entry.kind);
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double off = points[i].time / entry.points[i].time - 1;
      squares += off * off;
      sum += off;
      ++count;
    }
  }
  EXPECT_NEAR(std::sqrt(squares / count), 0.01, 0.0006);
  EXPECT_NEAR(sum / count, 0, 0.001);
}

TEST(Synthesize, ReportsEveryWrongOption) {
  const auto profile = synthesize({.gpu = "a100-smx",
                                   .stages = 0,
                                   .chunks = 0,
                                   .forward_seconds = 0,
                                   .imbalance = 0.9,
                                   .noise = std::nan("")});
  ASSERT_FALSE(profile.ok());
  EXPECT_EQ(profile.error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(profile.error().diagnostics.size(), 6u);
  EXPECT_THAT(profile.error().text(),
              HasSubstr("unknown GPU model 'a100-smx'; is 'a100-sxm' meant?"));
  EXPECT_THAT(profile.error().text(), HasSubstr("imbalance is 0.9: expected 1 to 10"));
}

}  // namespace
}  // namespace harpe::plan
