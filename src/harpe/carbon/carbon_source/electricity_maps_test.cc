// Answers written from the provider's documentation; none was recorded.

#include "harpe/carbon/carbon_source/electricity_maps.h"

#include <gtest/gtest.h>

#include <string>

#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {
namespace {

const ElectricityMapsOptions kGermany{.zone = "DE"};

/// Returns an item of a list: a value and its "datetime".
std::string item(const std::string& time, const std::string& value,
                 const std::string& more = R"(, "isEstimated": false)") {
  return R"({"zone": "DE", "carbonIntensity": )" + value + R"(, "datetime": ")" + time + "\"" +
         more + "}";
}

std::string error_of(const std::string& json, const ElectricityMapsOptions& asked = kGermany) {
  const auto answer = parse_electricity_maps(json, asked);
  return answer.ok() ? "" : answer.error().text();
}

TEST(ElectricityMaps, ReadsTheNewestValue) {
  const auto answer = parse_electricity_maps(
      R"({"zone":"DE","carbonIntensity":302,"datetime":"2026-01-01T10:00:00.000Z",
          "updatedAt":"2026-01-01T09:45:12.123Z","createdAt":"2025-12-29T10:51:21.122Z",
          "emissionFactorType":"lifecycle","isEstimated":true,
          "estimationMethod":"TIME_SLICER_AVERAGE","temporalGranularity":"hourly",
          "disclaimer":"a member that is not known"})",
      kGermany);
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  const IntensitySeries& series = answer->series;
  EXPECT_EQ(series.values, std::vector<double>{302});
  EXPECT_EQ(series.estimated, std::vector<std::uint8_t>{1});
  EXPECT_EQ(utc_text(series.start), "2026-01-01T10:00:00Z");
  EXPECT_EQ(series.step, whole_hours(1));
  EXPECT_EQ(series.kind, IntensityKind::kAverageLifecycle);
  EXPECT_EQ(series.zone, "DE");
  EXPECT_FALSE(answer->issued_at);
}

TEST(ElectricityMaps, ReadsListsOfBothVersionsInAnyOrderWithGapsAndDuplicates) {
  for (const char* list : {"history", "data"}) {
    const auto answer = parse_electricity_maps(
        std::string(R"({"zone": "DE", ")") + list + "\": [" +
            item("2026-01-01T12:00:00.000Z", "280") + "," +
            item("2026-01-01T09:00:00.000Z", "310", R"(, "isEstimated": true)") + "," +
            item("2026-01-01T10:00:00.000Z", "null") + "," +
            item("2026-01-01T09:00:00.000Z", "310") + "," +
            item("2026-01-01T09:00:00.000Z", "null") + "]}",
        kGermany);
    ASSERT_TRUE(answer.ok()) << answer.error().text();
    const IntensitySeries& series = answer->series;
    ASSERT_EQ(series.size(), 4u);
    EXPECT_EQ(series.values[0], 310);
    EXPECT_EQ(series.estimated[0], 0);  // from the later row of this time
    EXPECT_FALSE(series.known(1));
    EXPECT_FALSE(series.known(2));
    EXPECT_EQ(series.values[3], 280);
  }
}

TEST(ElectricityMaps, NamesBothPlacesOfTwoValuesOfOneTime) {
  const std::string error = error_of(R"({"zone": "DE", "history": [)"
                                     "\n" +
                                     item("2026-01-01T09:00:00.000Z", "310") + ",\n" +
                                     item("2026-01-01T10:00:00.000Z", "280") + ",\n  " +
                                     item("2026-01-01T09:00:00.000Z", "311") + "]}");
  EXPECT_NE(
      error.find("two values for 2026-01-01T09:00:00Z: 310 g/kWh in line 2, column 1, and 311 "
                 "g/kWh in line 4, column 3"),
      std::string::npos)
      << error;
}

TEST(ElectricityMaps, AForecastHasTheTimeItWasIssued) {
  const auto answer = parse_electricity_maps(
      R"({"zone":"DE","forecast":[{"carbonIntensity":310,"datetime":"2026-01-01T10:00:00.000Z"},
          {"carbonIntensity":290,"datetime":"2026-01-01T11:00:00.000Z"}],
          "updatedAt":"2026-01-01T09:31:05.250Z","temporalGranularity":"hourly"})",
      kGermany);
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  EXPECT_EQ(answer->series.values, (std::vector<double>{310, 290}));
  ASSERT_TRUE(answer->issued_at);
  EXPECT_EQ(utc_text(*answer->issued_at), "2026-01-01T09:31:05Z");
}

TEST(ElectricityMaps, RefusesAnswersOfAnotherKindZoneOrStep) {
  const std::string time = "2026-01-01T10:00:00.000Z";
  EXPECT_NE(error_of(item(time, "5", R"(, "emissionFactorType": "direct")"))
                .find("but lifecycle was requested"),
            std::string::npos);
  EXPECT_NE(error_of(item(time, "5"), {.zone = "FR"}).find("'DE', but 'FR'"), std::string::npos);
  EXPECT_NE(error_of(item(time, "5", R"(, "temporalGranularity": "5_minutes")"))
                .find("temporalGranularity"),
            std::string::npos);
  EXPECT_EQ(error_of(item(time, "5", R"(, "emissionFactorType": "direct")"),
                     {.zone = "DE", .kind = IntensityKind::kAverageDirect}),
            "");
}

TEST(ElectricityMaps, LeavesOutWhatCannotBeAndSaysSo) {
  const auto answer = parse_electricity_maps(
      R"({"zone": "DE", "history": [)" + item("2026-01-01T09:00:00Z", "-1") + "," +
          item("2026-01-01T10:00:00Z", "4000") + "," + item("2026-01-01T11:00:00Z", "0") + "]}",
      kGermany);
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  EXPECT_FALSE(answer->series.known(0));
  EXPECT_FALSE(answer->series.known(1));
  EXPECT_EQ(answer->series.values[2], 0);
  ASSERT_EQ(answer->notes.size(), 1u);
  EXPECT_EQ(answer->notes[0],
            "2 impossible values were left out, the first of them -1 g/kWh at "
            "2026-01-01T09:00:00Z");
}

TEST(ElectricityMaps, SaysWhatIsWrongWithAnAnswer) {
  for (const std::string& json : std::initializer_list<std::string>{
           "", "{", "[]", "<html>", R"({"error": "no"})", R"({"zone": "DE", "history": []})",
           R"({"zone": "DE", "history": 3})", R"({"zone": "DE", "history": [3]})",
           item("2026-01-01T10:00:00Z", "\"302\""), item("yesterday", "302"),
           item("2026-01-01T10:07:00Z", "null"),
           R"({"zone": "DE", "history": [)" + item("2026-01-01T10:00:00Z", "1") + "," +
               item("2026-01-01T10:30:00Z", "1") + "]}",
           R"({"zone": "DE", "history": [)" + item("1970-01-01T10:00:00Z", "1") + "," +
               item("2199-01-01T10:00:00Z", "1") + "," + R"({"carbonIntensity": 1}]})"}) {
    EXPECT_NE(error_of(json), "") << json;
  }
}

}  // namespace
}  // namespace harpe::carbon
