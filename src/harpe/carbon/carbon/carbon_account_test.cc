#include "harpe/carbon/carbon/carbon_account.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace harpe::carbon {
namespace {

using namespace harpe::literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using B = IntensityBasis;

constexpr UtcTime kStart{1'790'000'000 / 86'400 * 86'400};

IntensitySeries hours_of(std::vector<double> values,
                         IntensityKind kind = IntensityKind::kAverageLifecycle) {
  IntensitySeries series{.start = kStart, .values = std::move(values), .kind = kind, .zone = "DE"};
  series.estimated.assign(series.size(), 0);
  return series;
}

EnergyLedger ledger_of(std::vector<double> kilowatt_hours, WholeSeconds step = whole_hours(1)) {
  EnergyLedger ledger(step);
  UtcTime start = kStart;
  for (const double energy : kilowatt_hours) {
    const auto at = static_cast<double>(start.since_1970);
    EXPECT_TRUE(ledger
                    .add(at, at,
                         {.energy = {3.6e6 * energy},
                          .variance = 3.6e6 * energy,
                          .sensor_error = {0.05 * 3.6e6 * energy},
                          .device_time = {static_cast<double>(8 * step.count())}})
                    .ok());
    start += step;
  }
  return ledger;
}

TEST(AccountedSeries, GoesDownTheLadder) {
  std::vector<double> values(400, 100);
  for (std::size_t i = 200; i < 206; ++i) values[i] = kNoValue;
  values[32] = 55;  // a week before 200
  values[34] = 56;
  values[35] = kNoValue;
  values[36] = kNoValue;
  values[37] = kNoValue;
  IntensitySeries series = hours_of(values);
  series.estimated[1] = 1;
  const AccountedSeries filled = accounted_series(series, 381);
  EXPECT_EQ(filled.bases[0], B::kMeasured);
  EXPECT_EQ(filled.bases[1], B::kEstimated);
  EXPECT_EQ(filled.bases[200], B::kNeighbour);
  EXPECT_EQ(filled.series.values[200], 100);
  EXPECT_EQ(filled.bases[201], B::kNeighbour);
  EXPECT_EQ(filled.bases[202], B::kSameHourLastWeek);
  EXPECT_EQ(filled.series.values[202], 56);
  EXPECT_EQ(filled.bases[203], B::kYearlyMean) << "the week before has a gap, too";
  EXPECT_EQ(filled.series.values[203], 381);
  EXPECT_EQ(filled.bases[204], B::kNeighbour);
  const AccountedSeries unfilled = accounted_series(series);
  EXPECT_EQ(unfilled.bases[203], B::kNone);
  EXPECT_TRUE(std::isnan(unfilled.series.values[203]));
  EXPECT_EQ(accounted_series(hours_of({5}), {}, B::kYearlyMean).bases[0], B::kYearlyMean);
  const AccountedSeries later = without_before(filled, kStart + whole_hours(200));
  EXPECT_EQ(later.series.size(), 200U);
  EXPECT_EQ(later.bases.size(), 200U);
  EXPECT_EQ(later.bases[3], B::kYearlyMean);
  EXPECT_EQ(without_before(filled, kStart + whole_hours(1000)).series.size(), 0U);
}

TEST(CarbonAccount, IsEnergyTimesIntensity) {
  const EnergyLedger ledger = ledger_of({1, 2, 3});
  const AccountTerms terms{.pue = 1.5, .embodied = EmbodiedCarbon{{150'000}, {8.0 * 3600}}};
  const CarbonAccount account =
      account_for(ledger, accounted_series(hours_of({100, 200, 300})), terms);
  EXPECT_DOUBLE_EQ(account.operational.value, 1.5 * (100 + 400 + 900));
  EXPECT_DOUBLE_EQ(account.site.value, 1.5 * 6 * 3.6e6);
  EXPECT_DOUBLE_EQ(account.used.energy.value, 6 * 3.6e6);
  EXPECT_DOUBLE_EQ(account.embodied.value, 3 * 150'000)
      << "3 h of 8 devices that last an hour of 8";
  EXPECT_NEAR(account.sensor_error.value, 0.05 * account.operational.value, 1e-9);
  EXPECT_NEAR(account.grams_per_kwh(), 1400.0 / 6, 1e-9);
  EXPECT_NEAR(account.half_width().value,
              1.5 / 3.6e6 * std::sqrt(3.6e6 * (1 * 1e4 + 2 * 4e4 + 3 * 9e4)), 1e-9);
  EXPECT_EQ(account.begin, kStart);
  EXPECT_EQ(account.end, kStart + whole_hours(3));
}

TEST(CarbonAccount, OfOneNumberIsTheSameAsEmissions) {
  const EnergyLedger ledger = ledger_of({0.3, 0.7, 1.9});
  const CarbonAccount account = account_for(
      ledger, accounted_series(hours_of({302.5, 302.5, 302.5}), {}, B::kYearlyMean), {});
  EXPECT_NEAR(account.operational.value,
              emissions(ledger.total().energy, {.grams_per_kwh = 302.5}).value, 1e-9);
  EXPECT_DOUBLE_EQ(account.on(B::kYearlyMean).value, account.site.value);
}

TEST(CarbonAccount, SpreadsIntervalsOverFinerAndCoarserIntensities) {
  IntensitySeries fine = hours_of({100, 300});
  fine.step = whole_minutes(30);
  EXPECT_DOUBLE_EQ(account_for(ledger_of({1}), accounted_series(fine), {}).operational.value, 200);
  EXPECT_DOUBLE_EQ(
      account_for(ledger_of({1, 1}, whole_minutes(15)), accounted_series(hours_of({100})), {})
          .operational.value,
      200);
}

TEST(CarbonAccount, SaysWhatHasNoIntensity) {
  // One hour before the series, one in it, one after it.
  IntensitySeries series = hours_of({100});
  series.start += whole_hours(1);
  const CarbonAccount account =
      account_for(ledger_of({1, 1, 1}), accounted_series(series), {.pue = 2});
  EXPECT_DOUBLE_EQ(account.operational.value, 200);
  EXPECT_DOUBLE_EQ(account.without_intensity().value, 4 * 3.6e6);
  EXPECT_DOUBLE_EQ(account.grams_per_kwh(), 100);
  const CarbonAccount none = account_for(ledger_of({1}), AccountedSeries{}, {});
  EXPECT_EQ(none.operational.value, 0);
  EXPECT_DOUBLE_EQ(none.without_intensity().value, 3.6e6);
  EXPECT_EQ(none.grams_per_kwh(), 0);
}

TEST(CarbonAccount, TakesNegativeMarginalIntensities) {
  const CarbonAccount account = account_for(
      ledger_of({1, 2}), accounted_series(hours_of({-50, 10}, IntensityKind::kMarginal)), {});
  EXPECT_DOUBLE_EQ(account.operational.value, -30);
  EXPECT_NEAR(account.sensor_error.value, 0.05 * 70, 1e-9) << "errors do not cancel";
}

TEST(CarbonAccount, NeverAddsWhatIsOfTwoKinds) {
  const EnergyLedger ledger = ledger_of({1});
  const CarbonAccount average = account_for(ledger, accounted_series(hours_of({100})), {});
  const CarbonAccount marginal =
      account_for(ledger, accounted_series(hours_of({100}, IntensityKind::kMarginal)), {});
  const CarbonAccount contract =
      account_for(ledger, accounted_series(hours_of({100})), {.market_based = true});
  EXPECT_THAT(sum_of(average, marginal).error().text(), HasSubstr("two kinds"));
  EXPECT_THAT(sum_of(average, contract).error().text(), HasSubstr("market-based"));
  EXPECT_TRUE(sum_of(contract, contract).ok());
}

TEST(CarbonAccount, OfPartsSumsToThatOfTheWhole) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> value(0, 700), chance(0, 1);
  const AccountTerms terms{.pue = 1.2, .embodied = EmbodiedCarbon{{150'000}, {1e8}}};
  for (int round = 0; round < 50; ++round) {
    std::vector<double> intensities;
    for (int i = 0; i < 300; ++i) {
      intensities.push_back(chance(random) < 0.2 ? kNoValue : value(random));
    }
    const AccountedSeries series = accounted_series(hours_of(intensities));
    EnergyLedger whole(whole_minutes(15)), one(whole_minutes(15)), other(whole_minutes(15));
    for (int i = 0; i < 60; ++i) {
      const double from = static_cast<double>(kStart.since_1970) + 1500 * value(random);
      const EnergyUse use{.energy = {value(random)},
                          .variance = value(random),
                          .sensor_error = {value(random)},
                          .device_time = {value(random)}};
      const double to = from + 20 * value(random);
      ASSERT_TRUE(whole.add(from, to, use).ok());
      ASSERT_TRUE((chance(random) < 0.5 ? one : other).add(from, to, use).ok());
    }
    const CarbonAccount all = account_for(whole, series, terms);
    const auto expect_whole = [&](const CarbonAccount& a, const CarbonAccount& b) {
      const auto sum = sum_of(a, b);
      ASSERT_TRUE(sum.ok());
      EXPECT_NEAR(sum->operational.value, all.operational.value, 1e-9);
      EXPECT_NEAR(sum->embodied.value, all.embodied.value, 1e-9);
      EXPECT_NEAR(sum->half_width().value, all.half_width().value, 1e-9);
      EXPECT_NEAR(sum->sensor_error.value, all.sensor_error.value, 1e-9);
      EXPECT_NEAR(sum->site.value, all.site.value, 1e-6);
      for (std::size_t i = 0; i < kIntensityBases; ++i) {
        EXPECT_NEAR(sum->by_basis[i].value, all.by_basis[i].value, 1e-6);
      }
      EXPECT_EQ(sum->begin, all.begin);
      EXPECT_EQ(sum->end, all.end);
    };
    expect_whole(account_for(one, series, terms), account_for(other, series, terms));
    const UtcTime cut = whole.begin() + 100 * whole_minutes(15);
    expect_whole(account_for(whole.part(whole.begin(), cut), series, terms),
                 account_for(whole.part(cut, whole.end()), series, terms));
    Joules bases{};
    for (const Joules part : all.by_basis) bases += part;
    EXPECT_NEAR(bases.value, all.site.value, 1e-6);
    Grams grams{};
    for (const AccountedInterval& interval : account_by_interval(whole, series, terms)) {
      grams += interval.operational;
    }
    EXPECT_NEAR(grams.value, all.operational.value, 1e-9);
  }
}

TEST(CarbonAccount, EachIntervalSaysTheWorstItStandsOn) {
  IntensitySeries fine = hours_of({100, 300, 1});
  fine.step = whole_minutes(30);
  fine.estimated[1] = 1;
  const auto intervals = account_by_interval(ledger_of({1, 1}), accounted_series(fine), {});
  ASSERT_EQ(intervals.size(), 2U);
  EXPECT_EQ(intervals[0].worst, B::kEstimated);
  EXPECT_EQ(intervals[1].worst, B::kNone) << "half of it is behind the series";
}

}  // namespace
}  // namespace harpe::carbon
