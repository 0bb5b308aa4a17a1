#include "harpe/carbon/carbon/intensity_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {
namespace {

using ::testing::HasSubstr;

IntensitySeries series_of(const char* start, std::vector<double> values) {
  IntensitySeries series{.start = parse_utc(start).value(), .values = std::move(values)};
  series.estimated.assign(series.size(), 0);
  series.kind = IntensityKind::kAverageDirect;
  series.zone = "ES";
  return series;
}

TEST(IntensitySeries, JoinsWithAGapBetween) {
  const auto both = joined(series_of("2022-01-01", {1, 2}), series_of("2022-01-01T04:00Z", {5}));
  ASSERT_TRUE(both.ok()) << both.error().text();
  EXPECT_EQ(both->size(), 5U);
  EXPECT_EQ(both->gaps(), 2U);
  EXPECT_EQ(both->values[4], 5);
  EXPECT_EQ(utc_text(both->end()), "2022-01-01T05:00:00Z");
}

TEST(IntensitySeries, NeverJoinsWhatDiffers) {
  const IntensitySeries earlier = series_of("2022-01-01", {1, 2});
  const auto refused = [&](auto change) {
    IntensitySeries later = series_of("2022-01-02", {3});
    change(later);
    const auto both = joined(earlier, later);
    return both.ok() ? "joined" : both.error().text();
  };
  EXPECT_THAT(refused([](auto& s) { s.kind = IntensityKind::kMarginal; }), HasSubstr("two kinds"));
  EXPECT_THAT(refused([](auto& s) { s.zone = "NO"; }), HasSubstr("two zones"));
  EXPECT_THAT(refused([](auto& s) { s.step = whole_minutes(30); }), HasSubstr("two intervals"));
  EXPECT_THAT(refused([](auto& s) { s.start += whole_minutes(30); }), HasSubstr("grid"));
  EXPECT_THAT(refused([](auto& s) { s.start += whole_hours(-23); }), HasSubstr("end at"));
  EXPECT_THAT(refused([](auto& s) { s.start += whole_days(365'000); }), HasSubstr("too long"));
  EXPECT_THAT(refused([](auto& s) { s.zone = ""; }), HasSubstr("joined"));
}

TEST(IntensitySeries, AveragesToLongerIntervals) {
  IntensitySeries fine = series_of("2022-01-01", {1, 3, 5, kNoValue, kNoValue, kNoValue, 9, 9, 9});
  fine.step = whole_minutes(30);
  fine.estimated[1] = 1;
  const auto hourly = coarsened(fine, whole_hours(1));
  ASSERT_TRUE(hourly.ok()) << hourly.error().text();
  ASSERT_EQ(hourly->size(), 4U);  // half an hour is left over
  EXPECT_EQ(hourly->values[0], 2);
  EXPECT_EQ(hourly->values[1], 5);
  EXPECT_FALSE(hourly->known(2));
  EXPECT_EQ(hourly->estimates(), 1U);
  EXPECT_EQ(hourly->slots_per_day(), 24U);
  EXPECT_FALSE(coarsened(fine, whole_minutes(45)).ok());
  EXPECT_FALSE(coarsened(fine, whole_minutes(15)).ok());
  EXPECT_FALSE(coarsened(fine, whole_hours(5)).ok());
  EXPECT_FALSE(coarsened(fine, whole_hours(6)).ok());
}

TEST(IntensitySeries, GapsAreFilledFromTheDayBefore) {
  std::vector<double> values(30, 7);
  values[0] = values[3] = values[25] = kNoValue;
  values[1] = 5;
  values[2] = 6;
  const IntensitySeries filled = with_gaps_filled(series_of("2022-01-01", values));
  EXPECT_EQ(filled.gaps(), 0U);
  EXPECT_EQ(filled.values[0], 5) << "the first that is known";
  EXPECT_EQ(filled.values[3], 6) << "the last";
  EXPECT_EQ(filled.values[25], 5) << "a day before";
}

}  // namespace
}  // namespace harpe::carbon
