#include "harpe/training/carbon_control/intensity_outlook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "harpe/carbon/carbon_source/utc_arithmetic.h"

namespace harpe::training {
namespace {

using ::testing::HasSubstr;

constexpr double kStart = 1'764'000'000;  // a whole hour
constexpr double kKwh = 3.6e6;

IntensityReading reading_of(std::vector<double> values,
                            carbon::WholeSeconds step = carbon::whole_hours(1)) {
  IntensityReading reading;
  reading.identity = {.provider = "test", .zone = "X", .step = step};
  carbon::LabelledForecast forecast;
  forecast.expected.start = carbon::UtcTime{static_cast<std::int64_t>(kStart)};
  forecast.expected.step = step;
  forecast.expected.estimated.assign(values.size(), 0);
  forecast.expected.values = std::move(values);
  forecast.ladder = carbon::ForecastStep::kProvider;
  forecast.issued_at = forecast.fetched_at = forecast.expected.start;
  reading.forecast = forecast;
  return reading;
}

/// Returns 150 g/kWh, measured in the first hour of the forecast.
carbon::LabelledIntensity measured_now(const IntensityReading& reading) {
  carbon::LabelledIntensity current;
  current.intensity.grams_per_kwh = 150;
  current.start = reading.forecast->expected.start;
  current.step = carbon::whole_hours(1);
  current.ladder = carbon::LadderStep::kFresh;
  return current;
}

TEST(IntensityOutlook, BeginsWithWhatIsLeftOfTheHour) {
  const auto outlook =
      outlook_of(reading_of({100, 200, 300}), Seconds{kStart + 3000}, Seconds{kStart + 7300});
  ASSERT_TRUE(outlook.may_control) << outlook.why_not;
  ASSERT_EQ(outlook.intervals.size(), 3U);
  EXPECT_DOUBLE_EQ(outlook.intervals[0].duration.value, 600);
  EXPECT_DOUBLE_EQ(outlook.intervals[0].weight, 100 / kKwh);
  EXPECT_DOUBLE_EQ(outlook.intervals[2].weight, 300 / kKwh);
  EXPECT_EQ(outlook.present.grams_per_kwh, 100);
  EXPECT_FALSE(outlook.present.measured);
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
  const auto outlook = outlook_of(reading_of({1, 2, 3}, carbon::WholeSeconds(5)),
                                  Seconds{kStart + 1}, Seconds{kStart + 400.0 * 86'400});
  ASSERT_TRUE(outlook.may_control);
  EXPECT_LE(outlook.intervals.size(), kMostOutlook + 2);
  EXPECT_DOUBLE_EQ(outlook.intervals[0].duration.value, 4);
}

/// The newest fetched value may be of an earlier hour. Decisions then use the forecast.
TEST(IntensityOutlook, TellsWhatDecisionsGoBy) {
  IntensityReading reading = reading_of({100, 200});
  const carbon::UtcTime start = reading.forecast->expected.start;
  reading.current = measured_now(reading);
  reading.current->fetched_at = start + carbon::WholeSeconds(5);
  const auto present = present_intensity(reading, Seconds{kStart + 600});
  ASSERT_TRUE(present);
  EXPECT_EQ(present->grams_per_kwh, 150);
  EXPECT_STREQ(basis_of(*present), "measured");
  EXPECT_EQ(present->known_since, start + carbon::WholeSeconds(5));
  const auto later = present_intensity(reading, Seconds{kStart + 3600});
  ASSERT_TRUE(later);
  EXPECT_EQ(later->grams_per_kwh, 200);
  EXPECT_STREQ(basis_of(*later), "forecast");
  EXPECT_EQ(later->known_since, start);
  const auto outlook = outlook_of(reading, Seconds{kStart + 3600}, Seconds{kStart + 7200});
  EXPECT_EQ(outlook.present.grams_per_kwh, 200);
  EXPECT_FALSE(present_intensity(reading, Seconds{kStart + 7200}));
  EXPECT_THAT(why_no_control(reading, Seconds{kStart + 7200}),
              HasSubstr("does not cover the present"));
}

TEST(IntensityOutlook, WhatWasFetchedLastAges) {
  IntensityReading reading = reading_of({100, 200});
  const carbon::UtcTime start = reading.forecast->expected.start;
  reading.current = measured_now(reading);
  reading.current->fetched_at = start + carbon::WholeSeconds(5);
  const auto ladder = [&](std::int64_t after) -> std::optional<carbon::LadderStep> {
    const auto found = aged(reading.current, start + carbon::WholeSeconds(after));
    return found ? std::optional(found->ladder) : std::nullopt;
  };
  EXPECT_EQ(ladder(3604), carbon::LadderStep::kFresh);
  EXPECT_EQ(ladder(3605), carbon::LadderStep::kLastGood);
  EXPECT_EQ(ladder(3 * 3600), carbon::LadderStep::kLastGood);
  EXPECT_EQ(ladder(3 * 3600 + 1), std::nullopt);
  reading.current->ladder = carbon::LadderStep::kForecast;
  EXPECT_EQ(ladder(3599), carbon::LadderStep::kForecast);
  EXPECT_EQ(ladder(3600), std::nullopt);
  reading.current->ladder = carbon::LadderStep::kSameHourLastWeek;
  EXPECT_EQ(ladder(7 * 86'400 + 3599), carbon::LadderStep::kSameHourLastWeek);
  EXPECT_EQ(ladder(7 * 86'400 + 3600), std::nullopt);
  reading.current->ladder = carbon::LadderStep::kYearlyMean;
  EXPECT_EQ(ladder(400 * 86'400), carbon::LadderStep::kYearlyMean);
}

TEST(IntensityOutlook, TakesWhatIsMeasuredNow) {
  IntensityReading reading = reading_of({100, 200});
  reading.current = measured_now(reading);
  const auto outlook = outlook_of(reading, Seconds{kStart}, Seconds{kStart + 7200});
  EXPECT_TRUE(outlook.present.measured);
  EXPECT_DOUBLE_EQ(outlook.intervals[0].weight, 150 / kKwh);
}

/// Returns a reading with a flat forecast of 200 g/kWh and a record of `days` days. The forecast of
/// each earlier day was 100 for two days; n days ago, 100 + 10 n was measured.
IntensityReading reading_with_record(int days) {
  IntensityReading reading = reading_of(std::vector<double>(48, 200));
  carbon::IntensitySeries& measured = reading.record.measured;
  measured.start = carbon::UtcTime{static_cast<std::int64_t>(kStart)} - carbon::whole_days(days);
  for (int before = days; before > 0; --before) {
    measured.values.insert(measured.values.end(), 24, 100 + 10 * before);
  }
  measured.estimated.assign(measured.values.size(), 0);
  for (int day = 1; day <= days; ++day) {
    carbon::IntensitySeries said = reading.forecast->expected;
    said.start = said.start - carbon::whole_days(day);
    said.values.assign(48, 100);
    reading.record.earlier.push_back(
        {.days = static_cast<std::size_t>(day), .said = std::move(said)});
  }
  return reading;
}

TEST(IntensityOutlook, HasTheErrorsOfEarlierForecastsInTheirOrder) {
  const auto outlook =
      outlook_of(reading_with_record(30), Seconds{kStart + 1800}, Seconds{kStart + 24.0 * 3600});
  ASSERT_EQ(outlook.outlooks.size(), 30U);
  for (std::size_t i = 0; i < 30; ++i) {
    ASSERT_EQ(outlook.outlooks[i].size(), outlook.intervals.size());
    const double came = 100 + 10 * static_cast<double>(i + 1);
    EXPECT_NEAR(outlook.outlooks[i][3] * kKwh, 200 * came / 100, 1e-6);
  }
}

TEST(IntensityOutlook, TakesForecastsOfWhichAllHasCome) {
  // With three days to the deadline, the newest forecast that is over was made three days ago.
  IntensityReading reading = reading_with_record(30);
  const auto long_one = outlook_of(reading, Seconds{kStart}, Seconds{kStart + 72.0 * 3600});
  EXPECT_EQ(long_one.outlooks.size(), 28U);
  // A gap of two days excludes the forecasts for these days, a gap of an hour excludes none.
  std::fill_n(reading.record.measured.values.begin() + 100, 1, carbon::kNoValue);
  const auto short_one = outlook_of(reading, Seconds{kStart}, Seconds{kStart + 24.0 * 3600});
  EXPECT_EQ(short_one.outlooks.size(), 30U);
  std::fill_n(reading.record.measured.values.begin() + 240, 48, carbon::kNoValue);
  EXPECT_EQ(outlook_of(reading, Seconds{kStart}, Seconds{kStart + 24.0 * 3600}).outlooks.size(),
            28U);
  EXPECT_TRUE(
      outlook_of(reading, Seconds{kStart}, Seconds{kStart + 40 * 86'400.0}).outlooks.empty());
}

TEST(IntensityOutlook, OfAMeasuredHourHasNoError) {
  IntensityReading reading = reading_with_record(30);
  reading.current = measured_now(reading);
  const auto outlook = outlook_of(reading, Seconds{kStart}, Seconds{kStart + 7200});
  for (const carbon::WeightOutlook& one : outlook.outlooks)
    EXPECT_DOUBLE_EQ(one.front(), 150 / kKwh);
}

TEST(IntensityOutlook, IsNoneBelowTheStepsOfTheLadderThatMayBeActedUpon) {
  const Seconds now{kStart + 10}, until{kStart + 7200};
  IntensityReading reading = reading_of({100, 200});
  reading.forecast->ladder = carbon::ForecastStep::kPersistence;
  EXPECT_THAT(outlook_of(reading, now, until).why_not, HasSubstr("persistence"));
  reading = reading_of({100, 200});
  carbon::LabelledIntensity current;
  current.ladder = carbon::LadderStep::kSameHourLastWeek;
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
              HasSubstr("does not cover the present"));
}

}  // namespace
}  // namespace harpe::training
