#include "harpe/carbon/carbon/energy_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace harpe::carbon {
namespace {

using namespace harpe::literals;
using ::testing::HasSubstr;

struct Measured {
  double from = 0, to = 0;
  EnergyUse use;
};

EnergyUse use_of(std::mt19937_64& random) {
  std::uniform_real_distribution<double> share(0, 1);
  const double energy = 1e6 * share(random), time = 8000 * share(random);
  return {.energy = {energy},
          .host = {energy * share(random)},
          .variance = energy * share(random),
          .sensor_error = {0.05 * energy},
          .without_error = {energy * share(random)},
          .device_time = {time},
          .measured = {time * share(random)},
          .iterations = 100 * share(random),
          .paused = {time * share(random)}};
}

std::vector<double> numbers_of(const EnergyUse& use) {
  return {use.energy.value,        use.host.value,        use.variance,
          use.sensor_error.value,  use.device_time.value, use.measured.value,
          use.without_error.value, use.iterations,        use.paused.value};
}

void expect_same(const EnergyUse& a, const EnergyUse& b) {
  const std::vector<double> left = numbers_of(a), right = numbers_of(b);
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_NEAR(left[i], right[i], 1e-9 * std::max(1.0, std::abs(left[i]))) << "member " << i;
  }
}

TEST(EnergyLedger, SplitsAtTheGridByTime) {
  EnergyLedger ledger(whole_minutes(15));
  const EnergyUse use{.energy = 1000_J, .variance = 100, .device_time = 2000_s};
  ASSERT_TRUE(ledger.add(900.0 * 10 - 250, 900.0 * 10 + 750, use).ok());
  ASSERT_EQ(ledger.size(), 2U);
  EXPECT_DOUBLE_EQ(ledger.uses().at(UtcTime{8100}).energy.value, 250);
  EXPECT_DOUBLE_EQ(ledger.uses().at(UtcTime{9000}).energy.value, 750);
  EXPECT_DOUBLE_EQ(ledger.uses().at(UtcTime{8100}).half_width().value, 5);
  EXPECT_DOUBLE_EQ(ledger.total().half_width().value, 10);
  EXPECT_EQ(ledger.begin(), UtcTime{8100});
  EXPECT_EQ(ledger.end(), UtcTime{9900});
}

TEST(EnergyLedger, WhatEndsOnTheGridHasNothingOfTheNext) {
  EnergyLedger ledger(whole_hours(1));
  ASSERT_TRUE(ledger.add(0, 3600, {.energy = 1_J}).ok());
  EXPECT_EQ(ledger.size(), 1U);
  ASSERT_TRUE(ledger.add(3600, 3600, {.energy = 2_J}).ok());
  EXPECT_DOUBLE_EQ(ledger.uses().at(UtcTime{3600}).energy.value, 2);
}

TEST(EnergyLedger, KeepsWhatItWasGivenHoweverItIsSplitAndMerged) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> start(1.7e9, 1.7e9 + 1e5), length(0, 2e4), cut(0, 1);
  for (int round = 0; round < 100; ++round) {
    std::vector<Measured> all;
    EnergyUse sum;
    EnergyLedger whole(whole_minutes(5));
    for (int i = 0; i < 20; ++i) {
      Measured one{.from = start(random), .use = use_of(random)};
      one.to = one.from + length(random);
      ASSERT_TRUE(whole.add(one.from, one.to, one.use).ok());
      sum += one.use;
      all.push_back(one);
    }
    expect_same(whole.total(), sum);
    // Each measurement is split in two and added in another order to two ledgers.
    std::ranges::shuffle(all, random);
    EnergyLedger first(whole_minutes(5)), second(whole_minutes(5));
    for (const Measured& one : all) {
      const double share = cut(random), middle = one.from + share * (one.to - one.from);
      ASSERT_TRUE(first.add(one.from, middle, one.use * share).ok());
      ASSERT_TRUE(second.add(middle, one.to, one.use * (1 - share)).ok());
    }
    EnergyLedger merged = second;
    ASSERT_TRUE(merged.merge(first).ok());
    ASSERT_TRUE(first.merge(second).ok());
    ASSERT_EQ(merged.size(), whole.size());
    for (const auto& [at, use] : whole.uses()) {
      // A share of a time span is as exact as its ends: 2e-7 s, for seconds since 1970.
      EXPECT_NEAR(merged.uses().at(at).energy.value, use.energy.value, 1);
      expect_same(first.uses().at(at), merged.uses().at(at));
    }
    const UtcTime middle = whole.begin() + 7 * whole_minutes(5);
    expect_same(whole.part(whole.begin(), middle).total() + whole.part(middle, whole.end()).total(),
                sum);
  }
}

TEST(EnergyLedger, RefusesWhatCannotBe) {
  EnergyLedger ledger(whole_minutes(15));
  const double infinite = std::numeric_limits<double>::infinity();
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  const auto refused = [&](double from, double to, const EnergyUse& use) {
    const Status status = ledger.add(from, to, use);
    return status.ok() ? std::string("added") : status.error().text();
  };
  EXPECT_THAT(refused(0, 1, {.energy = {-1}}), HasSubstr("negative"));
  EXPECT_THAT(refused(0, 1, {.energy = {unknown}}), HasSubstr("not a number"));
  EXPECT_THAT(refused(0, 1, {.energy = 1_J, .host = 2_J}), HasSubstr("negative"));
  EXPECT_THAT(refused(0, 1, {.energy = 1_J, .without_error = 2_J}), HasSubstr("negative"));
  EXPECT_THAT(refused(2, 1, {.energy = 1_J}), HasSubstr("before it begins"));
  EXPECT_THAT(refused(-1, 1, {.energy = 1_J}), HasSubstr("1970"));
  EXPECT_THAT(refused(0, infinite, {.energy = 1_J}), HasSubstr("2199"));
  EXPECT_THAT(refused(unknown, 1, {.energy = 1_J}), HasSubstr("1970"));
  EXPECT_THAT(refused(0, 401.0 * 86'400, {.energy = 1_J}), HasSubstr("400 days"));
  EXPECT_TRUE(ledger.empty());
  EnergyLedger seconds(WholeSeconds(1));
  ASSERT_TRUE(seconds.add(0, 999'000, {.energy = 1_J}).ok());
  EXPECT_THAT(seconds.add(2e6, 2e6 + 2000, {.energy = 1_J}).error().text(), HasSubstr("1 000 000"));
  EXPECT_EQ(seconds.size(), 999'000U);
  EXPECT_THAT(ledger.merge(seconds).error().text(), HasSubstr("different intervals"));
  EXPECT_FALSE(EnergyLedger::is_step(WholeSeconds(7)));
  EXPECT_FALSE(EnergyLedger::is_step(WholeSeconds(0)));
}

}  // namespace
}  // namespace harpe::carbon
