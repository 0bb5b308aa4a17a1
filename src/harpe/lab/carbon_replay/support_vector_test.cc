#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "harpe/lab/carbon_replay/chase_forecast.h"

namespace harpe::lab {
namespace {

struct Problem {
  std::vector<std::vector<double>> points;
  std::vector<double> targets;
};

Problem random_problem(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Problem problem;
  const std::size_t count = 2 + seed % 40;
  for (std::size_t i = 0; i < count; ++i) {
    problem.points.push_back({normal(random), normal(random)});
    problem.targets.push_back(3 * std::sin(problem.points.back()[0]) + normal(random));
  }
  return problem;
}

/// Returns the objective that the dual problem minimises.
double objective(const Problem& problem, const std::vector<double>& beta,
                 const SupportVectorOptions& options) {
  double sum = 0;
  for (std::size_t i = 0; i < beta.size(); ++i) {
    for (std::size_t j = 0; j < beta.size(); ++j) {
      double distance = 0;
      for (std::size_t k = 0; k < 2; ++k) {
        distance += std::pow(problem.points[i][k] - problem.points[j][k], 2);
      }
      sum += 0.5 * beta[i] * beta[j] * std::exp(-options.gamma * distance);
    }
    sum += options.epsilon * std::abs(beta[i]) - problem.targets[i] * beta[i];
  }
  return sum;
}

TEST(SupportVector, MeetsTheConditionsOfKarushKuhnAndTucker) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Problem problem = random_problem(seed);
    const SupportVectorOptions options{.c = seed % 2 == 0 ? 1.0 : 100.0, .gamma = 0.5};
    const auto fitted = SupportVectorRegression::fit(problem.points, problem.targets, options);
    ASSERT_TRUE(fitted.ok()) << fitted.error().text();
    double sum = 0;
    for (std::size_t i = 0; i < problem.points.size(); ++i) {
      const double beta = fitted->beta()[i];
      sum += beta;
      ASSERT_LE(std::abs(beta), options.c);
      const double excess = problem.targets[i] - (*fitted)(problem.points[i]);
      // |beta| is 0 within the tube, anything from 0 to C on its edge, and C outside.
      const double near = 1e-4;
      if (beta == 0) {
        EXPECT_LE(std::abs(excess), options.epsilon + near);
      } else if (std::abs(beta) < options.c) {
        EXPECT_NEAR(excess, std::copysign(options.epsilon, beta), near);
      } else {
        EXPECT_GE(excess * std::copysign(1, beta), options.epsilon - near);
      }
    }
    EXPECT_NEAR(sum, 0, 1e-8 * options.c);
  }
}

TEST(SupportVector, IsNoWorseThanAnyNeighbour) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Problem problem = random_problem(seed);
    const SupportVectorOptions options{.c = 2, .gamma = 0.5};
    const auto fitted = SupportVectorRegression::fit(problem.points, problem.targets, options);
    ASSERT_TRUE(fitted.ok());
    const double reached = objective(problem, fitted->beta(), options);
    std::mt19937_64 random(seed);
    for (int attempt = 0; attempt < 200; ++attempt) {
      std::vector<double> beta = fitted->beta();
      double& one = beta[random() % beta.size()];
      double& other = beta[random() % beta.size()];
      const double move = std::uniform_real_distribution<double>(-0.5, 0.5)(random);
      if (&one == &other || std::abs(one + move) > options.c ||
          std::abs(other - move) > options.c) {
        continue;
      }
      one += move;
      other -= move;
      EXPECT_GE(objective(problem, beta, options), reached - 1e-6);
    }
  }
}

TEST(SupportVector, RefusesWhatItCannotFit) {
  const std::vector<double> target{1};
  EXPECT_FALSE(SupportVectorRegression::fit({}, {}).ok());
  EXPECT_FALSE(SupportVectorRegression::fit({{1}, {2}}, target).ok());
  EXPECT_FALSE(SupportVectorRegression::fit({{1}}, target, {.c = 0}).ok());
  EXPECT_FALSE(SupportVectorRegression::fit({{1}}, target, {.gamma = -1}).ok());
  const std::vector<double> two{1, 2};
  EXPECT_FALSE(SupportVectorRegression::fit({{1}, {2, 3}}, two).ok());
  const auto constant = SupportVectorRegression::fit({{5}}, target);
  ASSERT_TRUE(constant.ok());
  EXPECT_NEAR((*constant)(std::vector<double>{5}), 1, 0.1 + 1e-9);
}

}  // namespace
}  // namespace harpe::lab
