#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "harpe/device/gpu_model/gpu_model.h"
#include "harpe/plan/profile/check.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::plan {
namespace {

/// Root mean squares of the relative deviations of times and of energies.
struct Error2 {
  double time = 0;
  double energy = 0;
};

Error2 deviation(const Profile& a, const Profile& truth) {
  Error2 error;
  double count = 0;
  for (const InstructionProfile& entry : truth.entries()) {
    const auto points = a.points(entry.stage, entry.chunk, entry.kind);
    for (std::size_t i = 0; i < points.size(); ++i) {
      error.time += std::pow(points[i].time / entry.points[i].time - 1, 2);
      error.energy += std::pow(points[i].energy / entry.points[i].energy - 1, 2);
      ++count;
    }
  }
  return {std::sqrt(error.time / count), std::sqrt(error.energy / count)};
}

/// Returns the models to test: only one under sanitizers, where fits take seconds.
std::span<const GpuModel> fitted_models() {
  const std::span<const GpuModel> all = gpu_models();
  return HARPE_UNDER_SANITIZERS ? all.first(1) : all;
}

TEST(FitProfile, ComesNearerToTheTruthThanTheMeasurements) {
  for (const GpuModel& gpu : fitted_models()) {
    for (const double noise : {0.002, 0.01, 0.03}) {
      SCOPED_TRACE(std::string(gpu.name) + " noise " + std::to_string(noise));
      const auto measured = synthesize({.gpu = gpu.name, .noise = noise, .seed = 11});
      const auto truth = synthesize({.gpu = gpu.name, .noise = 0, .seed = 11});
      const Error2 before = deviation(*measured, *truth);
      const Error2 after = deviation(fit_profile(*measured), *truth);
      EXPECT_LT(after.time, 0.7 * before.time);
      EXPECT_LT(after.energy, 0.85 * before.energy);
    }
  }
}

TEST(FitProfile, LeavesExactMeasurementsNearlyAsTheyAre) {
  for (const GpuModel& gpu : fitted_models()) {
    SCOPED_TRACE(gpu.name);
    const auto truth = synthesize({.gpu = gpu.name, .noise = 0});
    const Error2 error = deviation(fit_profile(*truth), *truth);
    EXPECT_LT(error.time, 0.001);
    EXPECT_LT(error.energy, 0.003);
  }
}

TEST(FitProfile, IsNotPulledByOneWildMeasurement) {
  const auto truth = synthesize({.stages = 1, .noise = 0});
  const auto measured = synthesize({.stages = 1, .noise = 0.002});
  std::vector<InstructionProfile> entries(measured->entries().begin(), measured->entries().end());
  entries[0].points[20].time.value *= 1.5;
  entries[0].points[20].energy.value *= 1.5;
  const Profile fitted = fit_profile(Profile(entries));
  for (std::size_t i = 0; i < entries[0].points.size(); ++i) {
    EXPECT_NEAR(fitted.entries()[0].points[i].time / truth->entries()[0].points[i].time, 1, 0.01);
    EXPECT_NEAR(fitted.entries()[0].points[i].energy / truth->entries()[0].points[i].energy, 1,
                0.015);
  }
}

TEST(FitProfile, LeavesInstructionsWithFewClocksAndFixedTimesAlone) {
  const Profile profile(
      {{0,
        0,
        InstructionKind::kForward,
        {{{1000}, {4}, {1}}, {{1100}, {1}, {3}}, {{1200}, {3}, {2}}, {{1300}, {2}, {4}}}},
       {0, 0, InstructionKind::kSend, {{{0}, {1}, {1}}}}});
  EXPECT_EQ(profile_csv(fit_profile(profile)), profile_csv(profile));
}

TEST(FitProfile, DoesNotChangeWithTheUnits) {
  const auto measured = synthesize({.stages = 1, .noise = 0.01});
  std::vector<InstructionProfile> scaled(measured->entries().begin(), measured->entries().end());
  for (InstructionProfile& entry : scaled) {
    for (OperatingPoint& point : entry.points) point.energy.value *= 0x1p40;
  }
  const Profile a = fit_profile(*measured), b = fit_profile(Profile(scaled));
  for (std::size_t i = 0; i < a.entries()[0].points.size(); ++i) {
    EXPECT_NEAR(b.entries()[0].points[i].energy / a.entries()[0].points[i].energy / 0x1p40, 1,
                1e-9);
  }
}

TEST(FitProfile, FitsPointsWithOtherKnobsByThemselves) {
  const auto measured = synthesize({.stages = 1, .noise = 0.01});
  std::vector<InstructionProfile> entries(measured->entries().begin(), measured->entries().end());
  const Profile alone = fit_profile(Profile(entries));
  for (InstructionProfile& entry : entries) {
    const std::vector<OperatingPoint> points = entry.points;
    for (OperatingPoint point : points) {
      point.knobs.label = *Label::of("slow");
      point.time.value *= 2;
      entry.points.push_back(point);
    }
  }
  const Profile fitted = fit_profile(Profile(entries));
  for (const InstructionProfile& entry : alone.entries()) {
    const auto points = fitted.points(entry.stage, entry.chunk, entry.kind);
    ASSERT_EQ(points.size(), 2 * entry.points.size());
    for (std::size_t i = 0; i < entry.points.size(); ++i) {
      EXPECT_EQ(points[2 * i], entry.points[i]);
      EXPECT_NEAR(points[2 * i + 1].time / entry.points[i].time, 2, 1e-6);
    }
  }
}

}  // namespace
}  // namespace harpe::plan
