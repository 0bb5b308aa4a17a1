// Answers written from the provider's documentation; none was recorded.

#include "harpe/carbon/carbon_source/watttime.h"

#include <gtest/gtest.h>

#include <string>

#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {
namespace {

const WattTimeAsked kCaiso{.region = "CAISO_NORTH"};

std::string meta(const std::string& units, const std::string& more = "") {
  return R"("meta": {"region": "CAISO_NORTH", "signal_type": "co2_moer", "units": ")" + units +
         R"(", "data_point_period_seconds": 300, "model": {"date": "2026-03-01"})" + more + "}";
}

const std::string kTwoPoints =
    R"("data": [{"point_time": "2026-01-01T00:00:00+00:00", "value": 870.0},
                {"point_time": "2026-01-01T00:05:00+00:00", "value": -20.5}])";

TEST(WattTime, ConvertsTheUnitThatTheAnswerNames) {
  const auto pounds =
      parse_watttime("{" + kTwoPoints + "," + meta("lbs_co2_per_mwh") + "}", kCaiso);
  ASSERT_TRUE(pounds.ok()) << pounds.error().text();
  EXPECT_NEAR(pounds->series.values[0], 870 * 0.45359237, 1e-9);
  // Marginal values may be negative.
  EXPECT_NEAR(pounds->series.values[1], -20.5 * 0.45359237, 1e-9);
  EXPECT_EQ(pounds->series.kind, IntensityKind::kMarginal);
  EXPECT_EQ(pounds->series.step, whole_minutes(5));
  const auto grams = parse_watttime("{" + kTwoPoints + "," + meta("kg_co2_per_mwh") + "}", kCaiso);
  ASSERT_TRUE(grams.ok()) << grams.error().text();
  EXPECT_EQ(grams->series.values[0], 870);
  for (const char* units : {"percentile", "", "$/MWh"}) {
    EXPECT_FALSE(parse_watttime("{" + kTwoPoints + "," + meta(units) + "}", kCaiso).ok()) << units;
  }
  EXPECT_FALSE(parse_watttime("{" + kTwoPoints + "}", kCaiso).ok());
}

TEST(WattTime, AForecastHasTheTimeItWasGenerated) {
  const auto answer = parse_watttime(
      "{" + kTwoPoints + "," +
          meta("lbs_co2_per_mwh", R"(, "generated_at": "2025-12-31T23:55:00.123456+00:00")") + "}",
      kCaiso);
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  EXPECT_EQ(utc_text(answer->issued_at.value()), "2025-12-31T23:55:00Z");
}

TEST(WattTime, RefusesAnotherSignalOrRegion) {
  const std::string json = "{" + kTwoPoints + "," + meta("lbs_co2_per_mwh") + "}";
  EXPECT_FALSE(parse_watttime(json, {.region = "CAISO_NORTH", .signal = "co2_aoer"}).ok());
  EXPECT_FALSE(parse_watttime(json, {.region = "PJM", .signal = "co2_moer"}).ok());
  EXPECT_EQ(watttime_kind("co2_aoer"), IntensityKind::kAverageDirect);
  EXPECT_EQ(watttime_kind("health_damage"), IntensityKind::kUnstated);
}

TEST(WattTime, TakesNoTokenThatCannotBeSent) {
  EXPECT_EQ(parse_watttime_login(R"({"token": "abc.def"})").value(), "abc.def");
  for (const char* json : {"", "{}", "[]", "\"abc\"", R"({"token": ""})", R"({"token": 3})",
                           R"({"token": "a\r\nHost: b"})", R"({"token": "s3cret)"}) {
    const auto token = parse_watttime_login(json);
    ASSERT_FALSE(token.ok()) << json;
    EXPECT_EQ(token.error().text().find("s3cret"), std::string::npos);
  }
}

}  // namespace
}  // namespace harpe::carbon
