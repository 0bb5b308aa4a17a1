#include "harpe/carbon_control/intensity_outlook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harpe {
namespace {

using ::testing::HasSubstr;

constexpr double kStart = 1'764'000'000;  // a whole hour
constexpr double kKwh = 3.6e6;

IntensityReading reading_of(std::vector<double> values, WholeSeconds step = whole_hours(1)) {
  IntensityReading reading;
  reading.identity = {.provider = "test", .zone = "X", .step = step};
  LabelledForecast forecast;
  forecast.expected.start = UtcTime{static_cast<std::int64_t>(kStart)};
  forecast.expected.step = step;
  forecast.expected.estimated.assign(values.size(), 0);
  forecast.expected.values = std::move(values);
  forecast.ladder = ForecastStep::kProvider;
  forecast.issued_at = forecast.fetched_at = forecast.expected.start;
  reading.forecast = forecast;
  return reading;
}

TEST(IntensityOutlook, BeginsWithWhatIsLeftOfTheHour) {
  const auto outlook =
      outlook_of(reading_of({100, 200, 300}), Seconds{kStart + 3000}, Seconds{kStart + 7300});
  ASSERT_TRUE(outlook.may_control) << outlook.why_not;
  ASSERT_EQ(outlook.intervals.size(), 3U);
  EXPECT_DOUBLE_EQ(outlook.intervals[0].duration.value, 600);
  EXPECT_DOUBLE_EQ(outlook.intervals[0].weight, 100 / kKwh);
  EXPECT_DOUBLE_EQ(outlook.intervals[2].weight, 300 / kKwh);
  EXPECT_EQ(outlook.grams_per_kwh, 100);
  EXPECT_FALSE(outlook.measured);
}

TEST(IntensityOutlook, RepeatsItsLastDayBeyondItsEnd) {
  std::vector<double> two_days(48, 100);
  for (int i = 24; i < 48; ++i) two_days[static_cast<std::size_t>(i)] = i;
  const auto outlook =
      outlook_of(reading_of(two_days), Seconds{kStart}, Seconds{kStart + 60.0 * 3600});
  ASSERT_EQ(outlook.intervals.size(), 60U);
  EXPECT_DOUBLE_EQ(outlook.intervals[48].weight, 24 / kKwh);
  EXPECT_DOUBLE_EQ(outlook.intervals[59].weight, 35 / kKwh);
  const auto mean = outlook_of(reading_of({100, 300}), Seconds{kStart}, Seconds{kStart + 3 * 3600});
  EXPECT_DOUBLE_EQ(mean.intervals[2].weight, 200 / kKwh);
}

TEST(IntensityOutlook, IsBoundedHoweverFarTheDeadline) {
  const auto outlook = outlook_of(reading_of({1, 2, 3}, WholeSeconds(5)), Seconds{kStart + 1},
                                  Seconds{kStart + 400.0 * 86'400});
  ASSERT_TRUE(outlook.may_control);
  EXPECT_LE(outlook.intervals.size(), kMostOutlook + 2);
  EXPECT_DOUBLE_EQ(outlook.intervals[0].duration.value, 4);
}

TEST(IntensityOutlook, TakesWhatIsMeasuredNow) {
  IntensityReading reading = reading_of({100, 200});
  LabelledIntensity current;
  current.intensity.grams_per_kwh = 150;
  current.start = reading.forecast->expected.start;
  current.step = whole_hours(1);
  current.ladder = LadderStep::kFresh;
  reading.current = current;
  const auto outlook = outlook_of(reading, Seconds{kStart}, Seconds{kStart + 7200});
  EXPECT_TRUE(outlook.measured);
  EXPECT_DOUBLE_EQ(outlook.intervals[0].weight, 150 / kKwh);
}

TEST(IntensityOutlook, IsNoneBelowTheStepsOfTheLadderThatMayBeActedUpon) {
  const Seconds now{kStart + 10}, until{kStart + 7200};
  IntensityReading reading = reading_of({100, 200});
  reading.forecast->ladder = ForecastStep::kPersistence;
  EXPECT_THAT(outlook_of(reading, now, until).why_not, HasSubstr("persistence"));
  reading = reading_of({100, 200});
  LabelledIntensity current;
  current.ladder = LadderStep::kSameHourLastWeek;
  reading.current = current;
  EXPECT_THAT(outlook_of(reading, now, until).why_not, HasSubstr("same hour last week"));
  reading.forecast.reset();
  reading.trouble = "no route to host";
  EXPECT_THAT(outlook_of(reading, now, until).why_not, HasSubstr("no route to host"));
}

TEST(IntensityOutlook, IsNoneOfAForecastOfAnotherTime) {
  const IntensityReading reading = reading_of(std::vector<double>(48, 100));
  const auto at = [&](double hours) {
    return outlook_of(reading, Seconds{kStart + hours * 3600}, Seconds{kStart + 90.0 * 3600});
  };
  EXPECT_TRUE(at(5.9).may_control);
  EXPECT_THAT(at(6.1).why_not, HasSubstr("another time"));
  EXPECT_FALSE(at(-0.5).may_control);
  EXPECT_FALSE(at(-1000).may_control);
  EXPECT_FALSE(at(1e6).may_control);
  EXPECT_THAT(outlook_of(reading_of({1}), Seconds{kStart + 3600}, Seconds{kStart + 7200}).why_not,
              HasSubstr("does not tell of now"));
}

}  // namespace
}  // namespace harpe
