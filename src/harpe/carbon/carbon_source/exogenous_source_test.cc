#include "harpe/carbon/carbon_source/exogenous_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <string>

#include "harpe/base/test_directory_testing.h"
#include "harpe/carbon/carbon_source/intensity_chain.h"

namespace harpe::carbon {
namespace {

UtcTime exogenous_time(const std::string& text) {
  return parse_utc(text).value();
}

IntensitySeries hours_until(UtcTime end, std::size_t count) {
  return {.start = end - static_cast<std::int64_t>(count) * whole_hours(1),
          .values = std::vector<double>(count, 300),
          .estimated = std::vector<std::uint8_t>(count, 0),
          .kind = IntensityKind::kAverageLifecycle};
}

/// Wind that cannot be predicted from its past, and the emissions of a grid with that wind.
double wind_at(UtcTime time) {
  std::mt19937_64 random(static_cast<std::uint64_t>(time.since_1970 / (6 * 3600)));
  return 20'000 * static_cast<double>(random() >> 11) * 0x1p-53;
}
double grams_at(UtcTime time) {
  return 100 + 300 * std::exp(-wind_at(time) / 8000);
}

/// An area with a wind forecast up to the end of tomorrow.
class WindyArea final : public EntsoeSource {
 public:
  explicit WindyArea(const UtcTime& now) : now_(now) {}
  const SourceIdentity& identity() const override { return identity_; }
  Result<ProviderIntensity> latest() override { return history(now_ - whole_hours(12), now_); }
  Result<ProviderIntensity> history(UtcTime from, UtcTime to) override {
    std::vector<ProviderRow> rows;
    for (UtcTime time = from; time < to && time <= now_; time += whole_hours(1))
      rows.push_back({.start = time, .grams_per_kwh = grams_at(time)});
    auto answer = series_of_rows(rows, {.kind = IntensityKind::kAverageLifecycle,
                                        .zone = identity_.zone,
                                        .source = "test",
                                        .step = whole_hours(1)});
    if (answer.ok()) answer->fetched_at = now_;
    return answer;
  }
  Result<ProviderIntensity> forecast(WholeSeconds) override {
    return Error::of(ErrorCode::kNotSupported, "none");
  }
  Result<PowerSeries> day_ahead(DayAhead what, UtcTime from, UtcTime to) override {
    ++asked;
    if (down || what == DayAhead::kLoad) return Error::of(ErrorCode::kUnavailable, "no answer");
    PowerSeries power{.start = from};
    const UtcTime end = std::min(to, interval_of(now_, whole_days(1)) + whole_days(2));
    for (UtcTime time = from; time < end; time += whole_hours(1))
      power.megawatts["B19"].push_back(wind_at(time));
    return power;
  }

  int asked = 0;
  bool down = false;

 private:
  const UtcTime& now_;
  SourceIdentity identity_{
      .provider = "entsoe", .zone = "10Y1001A1001A82H", .kind = IntensityKind::kAverageLifecycle};
};

class ExogenousSourceTest : public testing::Test {
 public:
  TestDirectory directory;
  UtcTime now = exogenous_time("2026-03-20T10:20Z");
  WindyArea area{now};
  std::vector<std::string> notes;
};

TEST_F(ExogenousSourceTest, AFileIsKnownAheadAsFarAsItIsToldAndReaches) {
  const auto path = directory / "weather.csv";
  const auto write = [&](int hours_behind, int hours_ahead) {
    std::ofstream file(path);
    file << "time,wind\n";
    for (int hour = -40; hour < hours_ahead; ++hour)
      if (hour < -hours_behind || hours_behind == 0)
        file << utc_text(exogenous_time("2026-03-20T10:00Z") + whole_hours(hour)) << "," << hour
             << "\n";
  };
  const IntensitySeries past = hours_until(exogenous_time("2026-03-20T10:00Z"), 30);
  const auto ask = [&](int known_ahead) {
    notes.clear();
    return exogenous_file(path, whole_hours(known_ahead))(past, 24, notes);
  };
  write(0, 12);
  EXPECT_EQ(ask(6)->known_ahead, 6u);
  EXPECT_EQ(ask(24)->known_ahead, 12u);
  EXPECT_EQ(ask(6)->columns[0].values.size(), 54u);
  EXPECT_EQ(ask(6)->columns[0].values[30], 0);  // the hour after the newest intensity
  write(0, 48);
  EXPECT_EQ(ask(96)->known_ahead, 24u);
  // The file ended a while ago and has no values for the future.
  write(10, 0);
  EXPECT_FALSE(ask(24));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("wind"), std::string::npos) << notes[0];
  std::filesystem::remove(path);
  EXPECT_FALSE(ask(24));
  EXPECT_FALSE(notes.empty());
}

TEST_F(ExogenousSourceTest, MonthsThatAreOverAreAskedForOnceAndThePresentOneOnceAnHour) {
  const IntensitySeries past =
      hours_until(exogenous_time("2026-03-20T10:00Z"), 24 * 40);  // since February
  const auto make = [&] {
    return exogenous_day_ahead(area, directory / "cache", [this] { return now; });
  };
  ExogenousSource source = make();
  const auto series = source(past, 24, notes);
  ASSERT_TRUE(series);
  EXPECT_EQ(series->known_ahead, 24u);
  EXPECT_EQ(series->columns[0].name, "B19");
  EXPECT_DOUBLE_EQ(series->columns[0].values[5], wind_at(past.start_of(5)));
  EXPECT_EQ(area.asked, 4);  // load, and wind and sun, for two months each
  EXPECT_NE(notes[0].find("no day-ahead load"), std::string::npos);
  now += whole_minutes(50);
  EXPECT_TRUE(source(past, 24, notes));
  EXPECT_EQ(area.asked, 4);
  now += whole_minutes(20);
  EXPECT_TRUE(source(past, 24, notes));
  EXPECT_EQ(area.asked, 6);
  // Another process with the same cache.
  source = make();
  EXPECT_TRUE(source(past, 24, notes));
  EXPECT_EQ(area.asked, 6);
  // Cached values are used while the provider is down, as far as they reach.
  area.down = true;
  now += whole_hours(20);
  EXPECT_TRUE(source(past, 24, notes));
  EXPECT_EQ(area.asked, 8);
  const IntensitySeries later = hours_until(exogenous_time("2026-03-24T10:00Z"), 24 * 40);
  EXPECT_FALSE(source(later, 24, notes));
}

TEST_F(ExogenousSourceTest, ADamagedTableIsAskedForAnew) {
  const IntensitySeries past = hours_until(exogenous_time("2026-03-20T10:00Z"), 48);
  for (const char* text : {"", "time,B19\n", "# asked never\ntime,B19\n", "\xff\xfe"}) {
    std::filesystem::create_directories(directory / "cache");
    std::ofstream(directory / "cache" / "day-ahead-2026-03") << text;
    area.asked = 0;
    EXPECT_TRUE(
        exogenous_day_ahead(area, directory / "cache", [this] { return now; })(past, 24, notes));
    EXPECT_EQ(area.asked, 2);
  }
}

TEST_F(ExogenousSourceTest, WindThatIsForecastMakesOwnForecastsBetter) {
  IntensityCache cache(directory / "cache");
  const auto error_with = [&](const ExogenousSource& exogenous) {
    IntensityChain chain(area, cache, [this] { return now; },
                         {.backfill = whole_days(60), .exogenous = exogenous});
    const auto made = chain.forecast(whole_hours(24));
    EXPECT_TRUE(made.ok()) << made.error().text();
    EXPECT_EQ(made->ladder, ForecastStep::kOwn);
    EXPECT_EQ(made->expected.source.find("with B19") != std::string::npos,
              static_cast<bool>(exogenous));
    double sum = 0;
    for (std::size_t i = 1; i < made->expected.size(); ++i) {
      const double truth = grams_at(made->expected.start_of(i));
      sum += std::abs(made->expected.values[i] - truth) / truth;
    }
    return sum;
  };
  const ExogenousSource wind = exogenous_day_ahead(area, {}, [this] { return now; });
  double with = 0, without = 0;
  for (int day = 0; day < (HARPE_UNDER_SANITIZERS ? 1 : 3); ++day, now += whole_hours(31)) {
    with += error_with(wind);
    without += error_with({});
  }
  EXPECT_LT(with, 0.7 * without);
}

}  // namespace
}  // namespace harpe::carbon
