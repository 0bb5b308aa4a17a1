// The accuracy of a source's past forecasts, from the cache.

#include "harpe/carbon/carbon_source/forecast_record.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harpe/base/test_directory_testing.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/carbon/carbon_source/intensity_chain.h"

namespace harpe::carbon {
namespace {

double recorded_grams_at(UtcTime time) {
  return 300 + static_cast<double>(time.since_1970 / 3600 % 24);
}

/// Has every hour that has begun. Forecasts a day with an error that depends on the day of issue.
class DailySource final : public IntensitySource {
 public:
  explicit DailySource(const UtcTime& now) : now_(now) {}
  const SourceIdentity& identity() const override { return identity_; }
  Result<ProviderIntensity> latest() override {
    const UtcTime hour = interval_of(now_, identity_.step);
    return answer(hour, hour + identity_.step, 0);
  }
  Result<ProviderIntensity> history(UtcTime from, UtcTime to) override {
    return answer(from, to, 0);
  }
  Result<ProviderIntensity> forecast(WholeSeconds horizon) override {
    if (!forecasts) return Error::of(ErrorCode::kNotSupported, "no forecast in this plan");
    auto made = answer(interval_of(now_, identity_.step), now_ + horizon, error());
    if (made.ok()) made->issued_at = now_;
    return made;
  }
  double error() const { return static_cast<double>(now_.since_1970 / 86'400 % 50) + 1; }

  bool forecasts = true;

 private:
  Result<ProviderIntensity> answer(UtcTime from, UtcTime to, double error) const {
    ProviderIntensity made;
    made.fetched_at = now_;
    made.series = {.start = from, .step = identity_.step, .kind = identity_.kind, .zone = "X"};
    for (UtcTime time = from; time < to; time += identity_.step) {
      made.series.values.push_back(recorded_grams_at(time) + error);
      made.series.estimated.push_back(0);
    }
    return made;
  }

  const UtcTime& now_;
  SourceIdentity identity_{.provider = "daily", .zone = "X", .kind = IntensityKind::kAverageDirect};
};

class ForecastRecordTest : public testing::Test {
 public:
  /// Requests values and forecasts three times a day, as a server does.
  void live(int days) {
    for (int i = 0; i < 3 * days; ++i, now += whole_hours(8)) {
      ASSERT_TRUE(chain.current().ok());
      ASSERT_TRUE(chain.forecast(whole_hours(24)).ok());
    }
  }

  TestDirectory directory;
  UtcTime now = *parse_utc("2026-01-05T10:10:00Z");
  DailySource source{now};
  IntensityCache cache{directory.path()};
  IntensityChain chain{source, cache, [this] { return now; }};
};

TEST_F(ForecastRecordTest, HoldsOneForecastADayAsItWasIssuedAtThisTimeOfTheDay) {
  live(25);
  const auto present = chain.forecast(whole_hours(24));
  ASSERT_TRUE(present.ok());
  const ForecastRecord record = chain.record(*present);
  ASSERT_EQ(record.earlier.size(), 25U);
  EXPECT_EQ(record.measured.end(), now - whole_hours(8) + whole_minutes(50));
  for (std::size_t i = 0; i < record.earlier.size(); ++i) {
    const EarlierForecast& one = record.earlier[i];
    EXPECT_EQ(one.days, i + 1);
    const WholeSeconds before = whole_days(static_cast<std::int64_t>(one.days));
    EXPECT_EQ(one.said.start, present->expected.start - before);
    const double error = static_cast<double>((now - before).since_1970 / 86'400 % 50) + 1;
    EXPECT_EQ(one.said.values[5], recorded_grams_at(one.said.start_of(5)) + error);
  }
}

TEST_F(ForecastRecordTest, PassesOverDaysOnWhichNoForecastWasMade) {
  live(5);
  now += whole_days(3);
  live(5);
  const ForecastRecord record = chain.record(*chain.forecast(whole_hours(24)));
  std::vector<std::size_t> days;
  for (const EarlierForecast& one : record.earlier) days.push_back(one.days);
  EXPECT_EQ(days, (std::vector<std::size_t>{1, 2, 3, 4, 5, 9, 10, 11, 12, 13}));
}

TEST_F(ForecastRecordTest, KeepsItsOwnForecastsApartFromTheProviders) {
  live(2);
  source.forecasts = false;
  now += whole_days(1);
  live(3);
  const auto own = chain.forecast(whole_hours(24));
  ASSERT_TRUE(own.ok()) << own.error().text();
  ASSERT_EQ(own->ladder, ForecastStep::kOwn);
  const ForecastRecord record = chain.record(*own);
  EXPECT_EQ(record.earlier.size(), 3U);
  for (const EarlierForecast& one : record.earlier) {
    EXPECT_EQ(one.said.source, own->expected.source);
  }
}

TEST_F(ForecastRecordTest, IsEmptyWithoutACache) {
  IntensityCache none{""};
  IntensityChain other{source, none, [this] { return now; }};
  const auto present = other.forecast(whole_hours(24));
  ASSERT_TRUE(present.ok());
  EXPECT_TRUE(other.record(*present).earlier.empty());
  EXPECT_TRUE(other.record(*present).measured.values.empty());
}

}  // namespace
}  // namespace harpe::carbon
