// Answers written from the API's definition; none was recorded.

#include "harpe/carbon/carbon_source/uk_intensity.h"

#include <gtest/gtest.h>

#include <string>

#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {
namespace {

std::string half_hour(const std::string& from, const std::string& to,
                      const std::string& intensity) {
  return R"({"from": ")" + from + R"(", "to": ")" + to + R"(", "intensity": )" + intensity + "}";
}

const std::string kMeasured = half_hour("2018-01-20T12:00Z", "2018-01-20T12:30Z",
                                        R"({"forecast": 266, "actual": 263, "index": "moderate"})");
const std::string kNotYet = half_hour("2018-01-20T12:30Z", "2018-01-20T13:00Z",
                                      R"({"forecast": 270, "actual": null, "index": "moderate"})");

TEST(UkIntensity, TakesWhatWasMeasuredAndTheForecastWhereItIsNull) {
  const auto answer = parse_uk_intensity(R"({"data": [)" + kMeasured + "," + kNotYet + "]}", {});
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  EXPECT_EQ(answer->series.values, (std::vector<double>{263, 270}));
  EXPECT_EQ(answer->series.estimated, (std::vector<std::uint8_t>{0, 1}));
  EXPECT_EQ(answer->series.kind, IntensityKind::kAverageDirect);
  EXPECT_EQ(answer->series.step, whole_minutes(30));
  EXPECT_EQ(answer->series.zone, "GB");
  EXPECT_EQ(utc_text(answer->series.start), "2018-01-20T12:00:00Z");
}

TEST(UkIntensity, TakesTheForecastWhereThatIsAskedFor) {
  const auto answer =
      parse_uk_intensity(R"({"data": [)" + kMeasured + "," + kNotYet + "]}", {.forecast = true});
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  EXPECT_EQ(answer->series.values, (std::vector<double>{266, 270}));
  EXPECT_EQ(answer->series.estimates(), 0u);
}

TEST(UkIntensity, ReadsARegionInEachOfItsForms) {
  const std::string values =
      half_hour("2018-01-20T12:00Z", "2018-01-20T12:30Z", R"({"forecast": 88, "index": "low"})");
  const std::string region =
      R"({"regionid": 13, "dnoregion": "UKPN London", "shortname": "London", "data": [)" + values +
      "]}";
  const std::string regions =
      R"({"from": "2018-01-20T12:00Z", "to": "2018-01-20T12:30Z", "regions":
          [{"regionid": 12, "intensity": {"forecast": 7}},
           {"regionid": 13, "intensity": {"forecast": 88}}]})";
  for (const std::string& json : {R"({"data": [)" + region + "]}", R"({"data": )" + region + "}",
                                  R"({"data": [)" + regions + "]}"}) {
    const auto answer = parse_uk_intensity(json, {.region = 13});
    ASSERT_TRUE(answer.ok()) << json << answer.error().text();
    EXPECT_EQ(answer->series.values, std::vector<double>{88});
    EXPECT_EQ(answer->series.estimated, std::vector<std::uint8_t>{1});
    EXPECT_EQ(answer->series.zone, "GB-13");
  }
  EXPECT_FALSE(parse_uk_intensity(R"({"data": [)" + region + "]}", {.region = 12}).ok());
}

TEST(UkIntensity, BothDaysOfASwitchOfSummerTimeHave48HalfHoursInUtc) {
  for (const char* day : {"2018-03-25", "2018-10-28"}) {
    const auto begin = parse_utc(day).value();
    std::string list;
    for (int i = 0; i < 48; ++i) {
      const auto from = begin + whole_minutes(30 * i);
      const auto minute = [](UtcTime at) { return utc_text(at).substr(0, 16) + "Z"; };
      list +=
          (i > 0 ? "," : "") + half_hour(minute(from), minute(from + whole_minutes(30)),
                                         R"({"forecast": 1, "actual": )" + std::to_string(i) + "}");
    }
    const auto answer = parse_uk_intensity(R"({"data": [)" + list + "]}", {});
    ASSERT_TRUE(answer.ok()) << answer.error().text();
    ASSERT_EQ(answer->series.size(), 48u);
    EXPECT_EQ(answer->series.values[3], 3);
    EXPECT_EQ(answer->series.gaps(), 0u);
  }
}

TEST(UkIntensity, SaysWhatIsWrongWithAnAnswer) {
  for (const std::string& json : std::initializer_list<std::string>{
           "", "[]", "{}", R"({"data": null})", R"({"data": []})", R"({"data": [{}]})",
           R"({"data": [3]})", R"({"error": {"code": "400 Bad Request", "message": "no"}})",
           R"({"data": [)" +
               half_hour("2018-01-20T12:00Z", "2018-01-20T13:00Z", R"({"forecast": 1})") + "]}",
           R"({"data": [)" +
               half_hour("2018-01-20T12:00Z", "2018-01-20T12:30Z",
                         R"({"forecast": null, "actual": null})") +
               "]}",
           R"({"data": {"regionid": 1, "data": {"regionid": 1, "data": []}}})"}) {
    EXPECT_FALSE(parse_uk_intensity(json, {.region = 1}).ok()) << json;
  }
}

}  // namespace
}  // namespace harpe::carbon
