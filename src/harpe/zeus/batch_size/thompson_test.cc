#include "harpe/zeus/batch_size/thompson.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

namespace harpe::zeus {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

TEST(Posterior, IsThatOfTheNormalDistribution) {
  const std::vector<double> two{-10, -12}, three{-10, -12, -11}, four{-100, -120, -90, -95};
  EXPECT_DOUBLE_EQ(posterior(two, 0, 0).mean, -11);
  EXPECT_DOUBLE_EQ(posterior(two, 0, 0).precision, 2);
  EXPECT_DOUBLE_EQ(posterior(three, 0, 0).mean, -11);
  EXPECT_DOUBLE_EQ(posterior(three, 0, 0).precision, 4.5);
  EXPECT_DOUBLE_EQ(posterior(four, -50, 0.01).mean, -88.70206489675516);
  EXPECT_DOUBLE_EQ(posterior(four, -50, 0.01).precision, 0.040843373493975904);
}

TEST(Posterior, OfEqualRewardsIsCertain) {
  const std::vector<double> one{-5};
  EXPECT_EQ(posterior(one, 3, 2).mean, -5);
  EXPECT_EQ(posterior(one, 3, 2).precision, kInfinite);
  EXPECT_EQ(posterior(one, 3, 2).observations, 1);
}

TEST(Posterior, OfNothingIsThePrior) {
  const Belief belief = posterior({}, 3, 2);
  EXPECT_EQ(belief.mean, 3);
  EXPECT_EQ(belief.precision, 2);
  EXPECT_EQ(belief.observations, 0);
}

/// Integrates the product of the densities of the prior and of the rewards numerically.
TEST(Posterior, AgreesWithAnIntegralOverTheDensities) {
  const std::uint64_t seed = 20261124;
  SCOPED_TRACE(seed);
  Draws draws{.seed = static_cast<std::int64_t>(seed)};
  for (int round = 0; round < 50; ++round) {
    std::vector<double> rewards(2 + static_cast<std::size_t>(draws.uniform() * 8));
    for (double& reward : rewards) reward = -100 + 10 * draws.normal();
    const double prior_mean = -100 + 20 * draws.normal(), prior_precision = 0.001 + draws.uniform();
    const double mean =
        std::accumulate(rewards.begin(), rewards.end(), 0.0) / static_cast<double>(rewards.size());
    double variance = 0;
    for (const double reward : rewards) variance += (reward - mean) * (reward - mean);
    variance /= static_cast<double>(rewards.size());
    const auto log_density = [&](double x) {
      double sum = -prior_precision * (x - prior_mean) * (x - prior_mean) / 2;
      for (const double reward : rewards) sum -= (reward - x) * (reward - x) / variance / 2;
      return sum;
    };
    const Belief belief = posterior(rewards, prior_mean, prior_precision);
    const double width = 1 / std::sqrt(belief.precision);
    double weight = 0, first = 0, second = 0;
    for (int i = -4000; i <= 4000; ++i) {
      const double x = belief.mean + i * width / 500;
      const double density = std::exp(log_density(x) - log_density(belief.mean));
      weight += density;
      first += density * x;
      second += density * x * x;
    }
    const double integral_mean = first / weight;
    EXPECT_NEAR(integral_mean, belief.mean, 1e-6 * std::abs(belief.mean));
    EXPECT_NEAR(second / weight - integral_mean * integral_mean, 1 / belief.precision,
                1e-4 / belief.precision);
  }
}

TEST(Draws, AreNormalAndUniform) {
  Draws draws{.seed = 7};
  constexpr int kCount = 200'000;
  double sum = 0, squares = 0, beyond_two = 0, uniform = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = draws.normal();
    sum += x;
    squares += x * x;
    beyond_two += std::abs(x) > 2 ? 1 : 0;
    const double u = draws.uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    uniform += u;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
  EXPECT_NEAR(beyond_two / kCount, 0.0455, 0.002);
  EXPECT_NEAR(uniform / kCount, 0.5, 0.005);
}

TEST(Draws, EveryOrderIsEquallyLikely) {
  Draws draws{.seed = 8};
  std::map<std::vector<std::size_t>, int> seen;
  for (int i = 0; i < 24'000; ++i) ++seen[draws.permutation(4)];
  ASSERT_EQ(seen.size(), 24U);
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, 1000, 150);
}

TEST(ThompsonChoice, TakesFirstWhatWasSeenTooSeldom) {
  const std::vector<Belief> beliefs{{.mean = 0, .precision = kInfinite, .observations = 5},
                                    {.mean = -100, .precision = kInfinite, .observations = 1},
                                    {.mean = -100, .precision = kInfinite, .observations = 1}};
  Draws draws{.seed = 9};
  std::map<std::size_t, int> chosen;
  for (int i = 0; i < 1000; ++i) ++chosen[thompson_choice(beliefs, 2, draws)];
  EXPECT_EQ(chosen[0], 0);
  EXPECT_NEAR(chosen[1], 500, 80);
  EXPECT_NEAR(chosen[2], 500, 80);
}

/// Two normal beliefs: the share of choices is Phi((m1 - m0) / sqrt(v0 + v1)).
TEST(ThompsonChoice, ChoosesAsOftenAsABeliefIsTheLarger) {
  const std::vector<Belief> beliefs{{.mean = -10, .precision = 1, .observations = 3},
                                    {.mean = -11, .precision = 0.5, .observations = 3}};
  Draws draws{.seed = 10};
  constexpr int kCount = 100'000;
  int second = 0;
  for (int i = 0; i < kCount; ++i) second += thompson_choice(beliefs, 2, draws) == 1 ? 1 : 0;
  const double expected = 0.5 * std::erfc(1 / std::sqrt(3.0) / std::sqrt(2.0));
  EXPECT_NEAR(1.0 * second / kCount, expected, 0.005);
}

TEST(ThompsonChoice, OfWhatNothingIsKnownIsTakenFirst) {
  const std::vector<Belief> beliefs{{.mean = 0, .precision = 1, .observations = 5}, {}};
  Draws draws{.seed = 11};
  for (int i = 0; i < 20; ++i) EXPECT_EQ(thompson_choice(beliefs, 0, draws), 1U);
}

}  // namespace
}  // namespace harpe::zeus
