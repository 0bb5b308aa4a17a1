// Each step of the ladder, over a source that the test controls.

#include "harpe/carbon/carbon_source/intensity_chain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "harpe/base/test_directory_testing.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {
namespace {

UtcTime chain_time(const std::string& text) {
  return parse_utc(text).value();
}

/// Returns an intensity with the same daily cycle every day.
double chain_grams_at(UtcTime time) {
  const auto hour = static_cast<double>(time.since_1970 % 86400) / 3600;
  return 300 + 100 * std::sin(hour * std::numbers::pi / 12);
}

/// A source that has every hour up to the present, or is down.
class FakeSource final : public IntensitySource {
 public:
  explicit FakeSource(const UtcTime& now) : now_(now) {}

  const SourceIdentity& identity() const override { return identity_; }
  Result<ProviderIntensity> latest() override {
    ++latest_calls;
    const UtcTime begin = interval_of(now_, identity_.step) - lag * identity_.step;
    return answer(begin, begin + identity_.step);
  }
  Result<ProviderIntensity> history(UtcTime from, UtcTime to) override {
    ++history_calls;
    return answer(std::max(from, oldest), to);
  }
  Result<ProviderIntensity> forecast(WholeSeconds horizon) override {
    ++forecast_calls;
    if (!forecasts) return Error::of(ErrorCode::kNotSupported, "no forecast in this plan");
    auto made = answer(interval_of(now_, identity_.step), now_ + horizon);
    if (made.ok()) {
      for (double& grams : made->series.values) grams += 1000;  // unlike measured ones
      made->issued_at = now_;
    }
    return made;
  }

  ErrorCode down = ErrorCode::kInternal;  ///< kInternal if the source is up
  bool forecasts = true;
  int lag = 0;  ///< steps by which the newest value is late
  UtcTime oldest = chain_time("2026-01-01");
  std::uint8_t estimated = 0;
  IntensityKind answered = IntensityKind::kAverageLifecycle;
  int latest_calls = 0, history_calls = 0, forecast_calls = 0;

 private:
  Result<ProviderIntensity> answer(UtcTime from, UtcTime to) const {
    if (down != ErrorCode::kInternal) return Error::of(down, "the provider is down");
    ProviderIntensity made;
    made.fetched_at = now_;
    made.series = {
        .start = from, .step = identity_.step, .kind = answered, .zone = "DE", .source = "Fake"};
    for (UtcTime time = from; time < to; time += identity_.step) {
      made.series.values.push_back(chain_grams_at(time));
      made.series.estimated.push_back(estimated);
    }
    if (made.series.values.empty()) return Error::of(ErrorCode::kNotFound, "no value");
    return made;
  }

  const UtcTime& now_;
  SourceIdentity identity_{.provider = "fake",
                           .zone = "DE",
                           .kind = IntensityKind::kAverageLifecycle,
                           .step = whole_hours(1)};
};

class IntensityChainTest : public testing::Test {
 public:
  IntensityChain chain(IntensityChainOptions options = {}) {
    return {source, cache, [this] { return now; }, options};
  }
  LadderStep step_now() {
    auto found = chain().current();
    EXPECT_TRUE(found.ok()) << (found.ok() ? "" : found.error().text());
    return found.ok() ? found->ladder : LadderStep::kYearlyMean;
  }

  TestDirectory directory;
  UtcTime now = chain_time("2026-01-20T10:20Z");
  FakeSource source{now};
  IntensityCache cache{directory.path()};
};

TEST_F(IntensityChainTest, AFreshValueIsLabelledAndAskedForOnceAStep) {
  const auto found = chain().current();
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_EQ(found->ladder, LadderStep::kFresh);
  EXPECT_DOUBLE_EQ(found->intensity.grams_per_kwh, chain_grams_at(chain_time("2026-01-20T10:00Z")));
  EXPECT_EQ(found->intensity.kind, IntensityKind::kAverageLifecycle);
  EXPECT_EQ(found->intensity.zone, "DE");
  EXPECT_EQ(found->intensity.source, "Fake");
  EXPECT_EQ(found->start, chain_time("2026-01-20T10:00Z"));
  EXPECT_EQ(found->fetched_at, now);
  now += whole_minutes(39);
  EXPECT_EQ(step_now(), LadderStep::kFresh);
  EXPECT_EQ(source.latest_calls, 1);
  now += whole_minutes(22);
  EXPECT_EQ(step_now(), LadderStep::kFresh);
  EXPECT_EQ(source.latest_calls, 2);
}

TEST_F(IntensityChainTest, GoesDownTheLadderAsTimePassesWithoutTheProvider) {
  auto first = chain();
  ASSERT_TRUE(first.current().ok());
  ASSERT_TRUE(first.history(now - whole_days(8), now).ok());
  ASSERT_TRUE(first.forecast(whole_hours(24)).ok());
  source.down = ErrorCode::kUnavailable;
  now += whole_hours(2);
  auto found = chain().current();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->ladder, LadderStep::kLastGood);
  EXPECT_EQ(found->start, chain_time("2026-01-20T10:00Z"));
  ASSERT_FALSE(found->notes.empty());
  EXPECT_NE(found->notes[0].find("the provider is down"), std::string::npos);
  now = chain_time("2026-01-20T13:00Z");  // 2 steps after the end of the value
  EXPECT_EQ(step_now(), LadderStep::kLastGood);
  now += WholeSeconds(1);
  found = chain().current();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->ladder, LadderStep::kForecast);
  EXPECT_DOUBLE_EQ(found->intensity.grams_per_kwh,
                   1000 + chain_grams_at(chain_time("2026-01-20T13:00Z")));
  EXPECT_EQ(found->issued_at, chain_time("2026-01-20T10:20Z"));
  EXPECT_TRUE(carbon_control_allowed(found->ladder));
  now = chain_time("2026-01-21T11:30Z");  // the forecast ends
  found = chain().current();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->ladder, LadderStep::kSameHourLastWeek);
  EXPECT_EQ(found->start, chain_time("2026-01-14T11:00Z"));
  EXPECT_FALSE(carbon_control_allowed(found->ladder));
  now = chain_time("2026-01-28T10:30Z");
  EXPECT_FALSE(chain().current().ok());
  auto with_mean = chain({.yearly_mean = 381}).current();
  ASSERT_TRUE(with_mean.ok());
  EXPECT_EQ(with_mean->ladder, LadderStep::kYearlyMean);
  EXPECT_EQ(with_mean->intensity.grams_per_kwh, 381);
  EXPECT_FALSE(with_mean->fetched_at);
  EXPECT_FALSE(carbon_control_allowed(with_mean->ladder));
}

TEST_F(IntensityChainTest, ARefusalSaysWhyEachStepWasNotTaken) {
  source.down = ErrorCode::kNoPermission;
  const auto found = chain().current();
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, ErrorCode::kNoPermission);
  EXPECT_NE(found.error().text().find("the provider is down"), std::string::npos);
  EXPECT_NE(found.error().text().find("no yearly mean was given"), std::string::npos);
}

TEST_F(IntensityChainTest, AProviderThatLagsGivesLastGoodValues) {
  source.lag = 1;  // the previous hour has just ended
  EXPECT_EQ(step_now(), LadderStep::kFresh);
  now += whole_hours(2);
  source.lag = 2;
  EXPECT_EQ(step_now(), LadderStep::kLastGood);
  now += whole_hours(2);
  source.lag = 4;
  EXPECT_FALSE(chain().current().ok());
}

TEST_F(IntensityChainTest, AnAnswerOfAnotherKindIsNoValue) {
  source.answered = IntensityKind::kMarginal;
  const auto found = chain().current();
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().text().find("another kind"), std::string::npos);
}

TEST_F(IntensityChainTest, AClockThatWasNotSetAsksAndKeepsNothing) {
  now = chain_time("1970-01-01T00:05Z");
  EXPECT_FALSE(chain().current().ok());
  EXPECT_FALSE(chain().forecast(whole_hours(6)).ok());
  EXPECT_EQ(source.latest_calls + source.forecast_calls, 0);
}

TEST_F(IntensityChainTest, WhatAClockAheadKeptIsNoPresent) {
  now = chain_time("2026-01-27T10:20Z");
  ASSERT_TRUE(chain().current().ok());
  ASSERT_TRUE(chain().forecast(whole_hours(24)).ok());
  now = chain_time("2026-01-20T10:20Z");  // the clock is corrected
  const auto found = chain().current();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->ladder, LadderStep::kFresh);
  EXPECT_EQ(found->start, chain_time("2026-01-20T10:00Z"));
  // When the clock reaches that day, the source is queried again.
  source.down = ErrorCode::kUnavailable;
  now = chain_time("2026-01-27T05:20Z");
  EXPECT_FALSE(chain().current().ok());
}

TEST_F(IntensityChainTest, WithoutACacheAFreshValueStaysForTheRun) {
  IntensityCache none{""};
  IntensityChain held(source, none, [this] { return now; });
  ASSERT_TRUE(held.current().ok());
  now += whole_minutes(30);
  EXPECT_EQ(held.current().value().ladder, LadderStep::kFresh);
  EXPECT_EQ(source.latest_calls, 1);
}

TEST_F(IntensityChainTest, OfflineAsksNoProvider) {
  ASSERT_TRUE(chain().current().ok());
  const int calls = source.latest_calls;
  now += whole_hours(1) + whole_minutes(30);
  const auto found = chain({.offline = true}).current();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->ladder, LadderStep::kLastGood);
  EXPECT_EQ(source.latest_calls, calls);
}

TEST_F(IntensityChainTest, AForecastIsTheProvidersFromThePresentOn) {
  const auto made = chain().forecast(whole_hours(6));
  ASSERT_TRUE(made.ok()) << made.error().text();
  EXPECT_EQ(made->ladder, ForecastStep::kProvider);
  EXPECT_EQ(made->expected.start, chain_time("2026-01-20T10:00Z"));
  EXPECT_EQ(made->expected.size(), 6u);
  EXPECT_EQ(made->issued_at, now);
  EXPECT_TRUE(made->lower.empty());
  // The source is not requested again within a step, except for a longer forecast.
  ASSERT_TRUE(chain().forecast(whole_hours(6)).ok());
  EXPECT_EQ(source.forecast_calls, 1);
  EXPECT_EQ(chain().forecast(whole_hours(24)).value().expected.size(), 24u);
  EXPECT_EQ(source.forecast_calls, 2);
  // An earlier forecast is used for some hours, but no longer.
  source.down = ErrorCode::kUnavailable;
  now += whole_hours(3);
  const auto earlier = chain().forecast(whole_hours(24));
  ASSERT_TRUE(earlier.ok());
  EXPECT_EQ(earlier->ladder, ForecastStep::kProvider);
  EXPECT_EQ(earlier->issued_at, chain_time("2026-01-20T10:20Z"));
  EXPECT_EQ(earlier->expected.start, chain_time("2026-01-20T13:00Z"));
  now += whole_hours(4);
  EXPECT_FALSE(chain().forecast(whole_hours(24)).ok());
}

TEST_F(IntensityChainTest, WithoutAProvidersForecastHarpeMakesItsOwn) {
  source.forecasts = false;
  const auto made = chain().forecast(whole_hours(24));
  ASSERT_TRUE(made.ok()) << made.error().text();
  EXPECT_EQ(made->ladder, ForecastStep::kOwn);
  EXPECT_TRUE(carbon_control_allowed(made->ladder));
  ASSERT_EQ(made->expected.size(), 24u);
  EXPECT_EQ(made->expected.start, chain_time("2026-01-20T10:00Z"));
  // The current hour is measured. The day repeats, and so does the forecast.
  EXPECT_DOUBLE_EQ(made->expected.values[0], chain_grams_at(chain_time("2026-01-20T10:00Z")));
  EXPECT_EQ(made->lower.size(), 24u);
  for (std::size_t s = 0; s < 24; ++s) {
    EXPECT_NEAR(made->expected.values[s], chain_grams_at(made->expected.start_of(s)), 5) << s;
  }
  EXPECT_EQ(source.history_calls, 1);
  // The history that the chain has is enough for the next forecast.
  ASSERT_TRUE(chain().forecast(whole_hours(24)).ok());
  EXPECT_EQ(source.history_calls, 1);
}

TEST_F(IntensityChainTest, AnOwnForecastLiesRightWhereTheNewestValueIsOld) {
  source.forecasts = false;
  ASSERT_TRUE(chain().history(now - whole_days(14), now).ok());
  source.down = ErrorCode::kUnavailable;
  now += whole_hours(5);
  const auto made = chain().forecast(whole_hours(12));
  ASSERT_TRUE(made.ok()) << made.error().text();
  EXPECT_EQ(made->ladder, ForecastStep::kOwn);
  EXPECT_EQ(made->expected.start, chain_time("2026-01-20T15:00Z"));
  for (std::size_t s = 0; s < 12; ++s) {
    EXPECT_NEAR(made->expected.values[s], chain_grams_at(made->expected.start_of(s)), 5) << s;
  }
  now += whole_hours(24);
  EXPECT_FALSE(chain().forecast(whole_hours(12)).ok());
}

TEST_F(IntensityChainTest, AFewValuesGivePersistence) {
  source.forecasts = false;
  source.oldest = now - whole_hours(20);
  source.oldest = interval_of(source.oldest, whole_hours(1));
  const auto made = chain().forecast(whole_hours(3));
  ASSERT_TRUE(made.ok()) << made.error().text();
  EXPECT_EQ(made->ladder, ForecastStep::kPersistence);
  EXPECT_FALSE(carbon_control_allowed(made->ladder));
  EXPECT_EQ(made->expected.values,
            std::vector<double>(3, chain_grams_at(chain_time("2026-01-20T10:00Z"))));
}

TEST_F(IntensityChainTest, HistoryComesFromTheCacheOnceItIsWhole) {
  const auto first = chain().history(chain_time("2026-01-10"), chain_time("2026-01-12"));
  ASSERT_TRUE(first.ok()) << first.error().text();
  EXPECT_EQ(first->series.size(), 48u);
  EXPECT_EQ(first->fetched_at.size(), 48u);
  ASSERT_TRUE(chain().history(chain_time("2026-01-10T05:00Z"), chain_time("2026-01-11")).ok());
  EXPECT_EQ(source.history_calls, 1);
  ASSERT_TRUE(chain().history(chain_time("2026-01-11"), chain_time("2026-01-13")).ok());
  EXPECT_EQ(source.history_calls, 2);
  source.down = ErrorCode::kUnavailable;
  const auto part = chain().history(chain_time("2026-01-12"), chain_time("2026-01-14"));
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->series.size(), 24u);
  EXPECT_FALSE(part->notes.empty());
  EXPECT_FALSE(chain().history(chain_time("2026-01-16"), chain_time("2026-01-17")).ok());
  EXPECT_FALSE(chain().history(now + whole_days(1), now + whole_days(2)).ok());
}

TEST_F(IntensityChainTest, EstimatesAreAskedForAgainWhileTheyAreRevised) {
  const auto ask = [&] {
    return chain().history(chain_time("2026-01-19"), chain_time("2026-01-20"));
  };
  source.estimated = 1;
  EXPECT_EQ(ask().value().series.estimates(), 24u);
  ASSERT_TRUE(ask().ok());
  EXPECT_EQ(source.history_calls, 1);
  now += whole_hours(25);
  source.estimated = 0;
  EXPECT_EQ(ask().value().series.estimates(), 0u);
  EXPECT_EQ(source.history_calls, 2);
  now += whole_hours(25);
  ASSERT_TRUE(ask().ok());
  EXPECT_EQ(source.history_calls, 2);
}

TEST_F(IntensityChainTest, EstimatesThatStayAreAskedForNoMoreAfterAWeek) {
  source.estimated = 1;
  now = chain_time("2026-01-28T00:00Z");
  ASSERT_TRUE(chain().history(chain_time("2026-01-19"), chain_time("2026-01-20")).ok());
  now += whole_days(3);
  ASSERT_TRUE(chain().history(chain_time("2026-01-19"), chain_time("2026-01-20")).ok());
  EXPECT_EQ(source.history_calls, 1);
}

}  // namespace
}  // namespace harpe::carbon
