#include "harpe/carbon/carbon/exogenous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {
namespace {

using ::testing::HasSubstr;

Result<ExogenousSeries> read(std::string_view text, const ExogenousOptions& options = {}) {
  return parse_exogenous_csv(text, "weather.csv", options, parse_utc("2022-01-01").value(),
                             whole_hours(1), 4);
}

TEST(Exogenous, PutsValuesOnTheGridOfTheIntensities) {
  const auto series = read(
      "station,time,wind,sun\nA,2021-12-31T23:00Z,9,9\nA,2022-01-01T00:00Z,1,\n"
      "A,2022-01-01T01:00Z,2,7\nA,2022-01-01T01:30Z,4,8\nA,2022-01-01T04:00Z,9,9\n",
      {.known_ahead = whole_hours(3)});
  ASSERT_TRUE(series.ok()) << series.error().text();
  ASSERT_EQ(series->columns.size(), 2U);  // "station" is not numeric
  EXPECT_EQ(series->columns[0].name, "wind");
  EXPECT_EQ(series->columns[0].values[0], 1);
  EXPECT_EQ(series->columns[0].values[1], 3);
  EXPECT_TRUE(std::isnan(series->columns[0].values[2]));
  EXPECT_TRUE(std::isnan(series->columns[1].values[0]));
  EXPECT_EQ(series->known_ahead, 3U);
}

TEST(Exogenous, TakesTheColumnsThatWereAskedFor) {
  const std::string text = "date,wind,sun\n2022-01-01,1,2\n";
  const auto series = read(text, {.columns = {"sun"}});
  ASSERT_TRUE(series.ok()) << series.error().text();
  ASSERT_EQ(series->columns.size(), 1U);
  EXPECT_EQ(series->columns[0].values[0], 2);
  const auto none = read(text, {.columns = {"rain"}});
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().text(), HasSubstr("column 'rain' does not exist"));
}

TEST(Exogenous, SaysWhatIsWrong) {
  EXPECT_THAT(read("").error().text(), HasSubstr("no line"));
  EXPECT_THAT(read("wind\n1\n").error().text(), HasSubstr("the column of times is missing"));
  EXPECT_THAT(read("time,wind\n2022-01-01,1\nnoon,2\n").error().text(),
              HasSubstr("weather.csv:3:1: expected a time"));
  EXPECT_THAT(read("time,wind\n2023-01-01,1\n").error().text(), HasSubstr("none of its times"));
  EXPECT_THAT(read("time,wind\n2022-01-01,calm\n").error().text(),
              HasSubstr("no column of numbers"));
  EXPECT_THAT(read("time,wind\n2022-01-01,calm\n", {.columns = {"wind"}}).error().text(),
              HasSubstr("weather.csv:2:12: expected a number"));
  EXPECT_THAT(read("time,wind\n2022-01-01\n").error().text(), HasSubstr("expected 2 cells"));
  EXPECT_FALSE(read("time,wind\n2022-01-01,1\n", {.known_ahead = whole_hours(97)}).ok());
  std::string heading = "time", row = "2022-01-01";
  for (int i = 0; i < 17; ++i) {
    heading += ",c" + std::to_string(i);
    row += ",1";
  }
  EXPECT_THAT(read(heading + "\n" + row + "\n").error().text(), HasSubstr("choose at most 16"));
}

}  // namespace
}  // namespace harpe::carbon
