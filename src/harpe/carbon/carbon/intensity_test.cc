#include "harpe/carbon/carbon/intensity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harpe::carbon {
namespace {

using testing::HasSubstr;

TEST(Intensity, GramsFollowFromJoules) {
  // 30 J in a quarter of an hour at 494 g/kWh, the example of Zeus's carbon monitor.
  EXPECT_NEAR(emissions(30_J, {.grams_per_kwh = 494}).value, 0.004116667, 1e-9);
  EXPECT_DOUBLE_EQ(emissions(3.6e6_J, {.grams_per_kwh = 302}).value, 302);
}

TEST(Intensity, ANumberIsTakenAsGiven) {
  const auto given = parse_intensity(" 302.5 ");
  ASSERT_TRUE(given.ok());
  EXPECT_EQ(given->grams_per_kwh, 302.5);
  EXPECT_EQ(given->kind, IntensityKind::kUnstated);
  EXPECT_EQ(given->source, "given");
}

TEST(Intensity, AZoneBringsItsYearlyMeanWithKindAndSource) {
  const auto mean = parse_intensity("de");
  ASSERT_TRUE(mean.ok());
  EXPECT_EQ(mean->grams_per_kwh, 381);
  EXPECT_EQ(mean->kind, IntensityKind::kAverageLifecycle);
  EXPECT_EQ(mean->zone, "DE");
  EXPECT_THAT(mean->source, HasSubstr("Ember"));
}

TEST(Intensity, EveryZoneIsPlausibleAndListedOnce) {
  const std::vector<std::string> zones = known_zones();
  EXPECT_TRUE(std::is_sorted(zones.begin(), zones.end()));
  EXPECT_EQ(std::adjacent_find(zones.begin(), zones.end()), zones.end());
  for (const std::string& zone : zones) {
    const auto mean = parse_intensity(zone);
    ASSERT_TRUE(mean.ok()) << zone;
    EXPECT_GT(mean->grams_per_kwh, 10) << zone;
    EXPECT_LT(mean->grams_per_kwh, 1000) << zone;
  }
}

TEST(Intensity, AUnitIsTakenAndKilogramsAreNamed) {
  EXPECT_EQ(parse_intensity("0.38 kg/kWh").value().grams_per_kwh, 380);
  EXPECT_EQ(parse_intensity("0.5g/kWh").value().grams_per_kwh, 0.5);
  EXPECT_EQ(parse_intensity("0").value().grams_per_kwh, 0);
  EXPECT_EQ(parse_intensity("2").value().grams_per_kwh, 2);
  EXPECT_THAT(parse_intensity("0.38").error().text(), HasSubstr("looks like kg/kWh: give 380, or"));
  EXPECT_THAT(parse_intensity("4 kg/kWh").error().text(), HasSubstr("'4 kg/kWh' is out of range"));
  EXPECT_FALSE(parse_intensity("-1 g/kWh").ok());
}

TEST(Intensity, WhatCannotBeIsRefused) {
  for (const char* text : {"-1", "3001", "nan", "inf", "", "12g", "XX"}) {
    EXPECT_FALSE(parse_intensity(text).ok()) << text;
  }
  EXPECT_THAT(parse_intensity("WORD").error().text(), HasSubstr("did you mean WORLD?"));
  EXPECT_THAT(parse_intensity("Germany").error().text(), HasSubstr("zone 'Germany'. Give the"));
}

TEST(Embodied, IsWrittenOffOverTheLifetime) {
  const auto embodied = parse_embodied("150kg/5y");
  ASSERT_TRUE(embodied.ok());
  EXPECT_EQ(embodied->mass.value, 150e3);
  EXPECT_DOUBLE_EQ(embodied_share(*embodied, embodied->lifetime).value, 150e3);
  EXPECT_NEAR(embodied_share(*embodied, Seconds{3600}).value, 150e3 / (5 * 365.25 * 24), 1e-9);
}

TEST(Embodied, WhatCannotBeIsRefused) {
  for (const char* text : {"", "150", "150kg", "150/5", "150kg/", "kg/y", "-1kg/5y", "1kg/0y",
                           "1lb/5y", "1kg/5min", "1kg/5y/2"}) {
    EXPECT_FALSE(parse_embodied(text).ok()) << text;
  }
}

}  // namespace
}  // namespace harpe::carbon
