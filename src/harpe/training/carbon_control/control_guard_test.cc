// The guard of a controlled job, based on the errors of earlier forecasts: the job waits for a
// cleaner hour if such forecasts were right, but not if they were often wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "harpe/carbon/carbon_source/utc_arithmetic.h"
#include "harpe/training/carbon_control/carbon_controller_testing.h"

namespace harpe::training {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kDaysBefore = 60, kHoursAhead = 72;

/// Each day has 12 hours of about 300 g/kWh and 12 hours that are forecast at 200. On some days
/// there is no wind, and these hours have 420, which no forecast shows before they begin.
class PromisingGrid {
 public:
  PromisingGrid(unsigned seed, double kept) {
    std::mt19937_64 random(seed);
    std::bernoulli_distribution keeps(kept);
    std::normal_distribution<double> noise(1, 0.02);
    for (int hour = 0; hour < 24 * kDaysBefore + 2 * kHoursAhead; ++hour) {
      if (hour % 24 == 0) clean_ = keeps(random) ? 190 : 420;
      values_.push_back((hour % 24 < 12 ? 300 : clean_) * noise(random));
    }
  }
  /// Returns the hours from the start of control on, which is the start of a day.
  std::vector<double> hours() const {
    return {values_.begin() + std::ptrdiff_t{24} * kDaysBefore, values_.end()};
  }
  /// Returns the reading in the hour of `now`, with a record of `days` days.
  IntensityReading read(Seconds now, int days) const {
    const int hour = 24 * kDaysBefore + static_cast<int>((now.value - kControlStart) / 3600);
    IntensityReading reading = reading_testing(hours(), now);
    reading.forecast->expected = made_at(hour);
    for (int day = 1; day <= days; ++day) {
      reading.record.earlier.push_back(
          {.days = static_cast<std::size_t>(day), .said = made_at(hour - 24 * day)});
    }
    carbon::IntensitySeries& measured = reading.record.measured;
    measured.start = time_of(0);
    measured.values.assign(values_.begin(), values_.begin() + hour);
    measured.estimated.assign(measured.values.size(), 0);
    return reading;
  }

 private:
  static carbon::UtcTime time_of(int hour) {
    return carbon::UtcTime{static_cast<std::int64_t>(kControlStart) +
                           std::int64_t{3600} * (hour - 24 * kDaysBefore)};
  }
  carbon::IntensitySeries made_at(int hour) const {
    carbon::IntensitySeries made;
    made.start = time_of(hour);
    for (int i = hour; i < hour + kHoursAhead; ++i) {
      const bool has_begun = i / 24 == hour / 24 && hour % 24 >= 12;
      const double promised = i % 24 < 12 ? 300 : 200;
      made.values.push_back(has_begun ? values_[static_cast<std::size_t>(i)] : promised);
    }
    made.estimated.assign(made.values.size(), 0);
    return made;
  }

  double clean_ = 0;
  std::vector<double> values_;
};

CarbonTerms terms_of(std::optional<double> guard) {
  CarbonTerms terms;
  terms.iterations = std::int64_t{6} * 360;  // at 10 s each
  terms.deadline_factor = 4;
  terms.pause = CarbonPause{.idle_power = Watts{0}};
  terms.guard = guard;
  return terms;
}

struct Played {
  int above = 0;  ///< jobs that emitted over 1 % more than the best steady pace
  double saved = 0, worst = -1;
};

Played play(double kept, std::optional<double> guard, int days) {
  constexpr int kJobs = 16;
  Played played;
  for (int job = 0; job < kJobs; ++job) {
    const PromisingGrid grid(static_cast<unsigned>(job), kept);
    const auto read = [&](Seconds now) { return grid.read(now, days); };
    const double steady = best_static(grid.hours(), 6, 24);
    const double grams =
        play_testing(terms_of(guard), grid.hours(), [](double) { return 0.0; }, read).grams;
    played.above += grams > 1.01 * steady ? 1 : 0;
    played.saved += (1 - grams / steady) / kJobs;
    played.worst = std::max(played.worst, grams / steady - 1);
  }
  return played;
}

TEST(ControlGuard, DoesNotWaitForWhatForecastsOftenPromisedInVain) {
  const Played free = play(0.7, std::nullopt, 50);
  EXPECT_GE(free.above, 3);
  EXPECT_GT(free.worst, 0.3);
  const Played guarded = play(0.7, 0.01, 50);
  EXPECT_EQ(guarded.above, 0);
  EXPECT_LE(guarded.worst, 0.01);
}

TEST(ControlGuard, LeavesTheGainWhereForecastsWereRight) {
  const Played free = play(1, std::nullopt, 50);
  const Played guarded = play(1, 0.01, 50);
  EXPECT_GT(free.saved, 0.25);
  EXPECT_GT(guarded.saved, 0.95 * free.saved);
  EXPECT_EQ(guarded.above, 0);
  // Too few forecasts are known, so the guard uses the range of the forecast.
  EXPECT_LT(play(1, 0.01, 10).saved, 0.5 * free.saved);
}

TEST(ControlGuard, SaysByWhatItGuards) {
  const PromisingGrid grid(7, 0.7);
  const auto guard_of = [&](CarbonTerms terms, int days) {
    CarbonController controller(std::move(terms), {});
    return controller
        .decide({.now = Seconds{kControlStart}, .paces = paces_testing()},
                grid.read(Seconds{kControlStart}, days))
        .guard;
  };
  EXPECT_EQ(guard_of(terms_of(0.01), 50), "by the errors of 50 earlier forecasts");
  const std::string few = guard_of(terms_of(0.01), 12);
  EXPECT_THAT(few, StartsWith("by the range of the forecast"));
  EXPECT_THAT(few, HasSubstr("12 are known"));
  CarbonTerms certain = terms_of(0.01);
  certain.guard_confidence = 1;
  EXPECT_EQ(guard_of(certain, 50), "by the range of the forecast");
  EXPECT_EQ(guard_of(terms_of(std::nullopt), 50), "");
}

}  // namespace
}  // namespace harpe::training
