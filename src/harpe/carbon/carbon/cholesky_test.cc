#include "harpe/carbon/carbon/cholesky.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace harpe::carbon {
namespace {

TEST(Cholesky, SolvesWhatItWasGiven) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    const std::size_t n = 1 + seed % 17, columns = 1 + seed % 5;
    std::vector<double> root(n * n), a(n * n, 0), x(n * columns), b(n * columns, 0);
    for (double& value : root) value = normal(random);
    for (double& value : x) value = normal(random);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t k = 0; k < n; ++k) a[i * n + j] += root[i * n + k] * root[j * n + k];
      }
      a[i * n + i] += 0.5;
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t k = 0; k < columns; ++k)
          b[i * columns + k] += a[i * n + j] * x[j * columns + k];
      }
    }
    ASSERT_TRUE(solve_positive_definite(a, n, b, columns));
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(b[i], x[i], 1e-9);
  }
}

TEST(Cholesky, RefusesWhatIsNotPositiveDefinite) {
  std::vector<double> b{1, 1};
  std::vector<double> singular{1, 1, 1, 1};
  EXPECT_FALSE(solve_positive_definite(singular, 2, b, 1));
  std::vector<double> negative{1, 0, 0, -1};
  EXPECT_FALSE(solve_positive_definite(negative, 2, b, 1));
  std::vector<double> infinite{INFINITY, 0, 0, 1};
  EXPECT_FALSE(solve_positive_definite(infinite, 2, b, 1));
  std::vector<double> unknown{NAN, 0, 0, 1};
  EXPECT_FALSE(solve_positive_definite(unknown, 2, b, 1));
}

}  // namespace
}  // namespace harpe::carbon
