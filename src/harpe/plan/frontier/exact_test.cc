#include "harpe/plan/frontier/exact.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace harpe::plan {
namespace {

constexpr std::uint64_t kSeed = 20261128;

/// Returns a double of any size that fits, with random bits.
double random_double(std::mt19937_64& random) {
  const int exponent = static_cast<int>(random() % 100) - 60;
  const double mantissa = 1 + std::ldexp(static_cast<double>(random() >> 12), -52);
  return std::min(std::ldexp(mantissa, exponent), 0x1p40);
}

TEST(Exact, WhatFits) {
  for (const double value : {0.0, 0x1p-60, 1.0, 0x1p40}) EXPECT_TRUE(fits(value)) << value;
  for (const double value : {0x1p-61, -1.0, 0x1p41, std::nan(""), HUGE_VAL, -HUGE_VAL, 5e-324})
    EXPECT_FALSE(fits(value)) << value;
}

TEST(Exact, ReadsBackEveryDouble) {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 10'000; ++i) {
    const double value = random_double(random);
    EXPECT_EQ(Exact(value).rounded_down(), value);
    EXPECT_EQ(Exact(value).rounded_up(), value);
    EXPECT_EQ(Exact(-value).rounded_down(), -value);
    EXPECT_EQ(Exact(value) - Exact(value), Exact());
  }
}

TEST(Exact, SumsDoNotDependOnTheirOrder) {
  std::mt19937_64 random(kSeed);
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(random_double(random));
  Exact forwards, backwards;
  for (const double value : values) forwards += Exact(value);
  for (auto value = values.rbegin(); value != values.rend(); ++value) backwards += Exact(*value);
  EXPECT_EQ(forwards, backwards);
  for (const double value : values) forwards -= Exact(value);
  EXPECT_EQ(forwards, Exact());
}

// Compares with fma(), which rounds only once.
TEST(Exact, ProductsAreExact) {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 10'000; ++i) {
    const double a = random_double(random), b = random_double(random);
    const double high = a * b, low = std::fma(a, b, -high);
    const Exact product = Exact::product(a, b);
    EXPECT_EQ(product, Exact::product(Exact(a), b));
    if (!fits(high) || !fits(std::abs(low))) continue;
    EXPECT_EQ(product, Exact(high) + Exact(low));
    EXPECT_LE(product.rounded_down(), high);
    EXPECT_GE(product.rounded_up(), high);
    EXPECT_LE(product.rounded_up() - product.rounded_down(), std::ldexp(high, -52));
  }
}

TEST(Exact, MultiplesAndShares) {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 10'000; ++i) {
    const Exact a = Exact(random_double(random)) - Exact(random_double(random));
    const auto n = static_cast<std::int64_t>(random() % 1000) + 1;
    EXPECT_EQ((a * n).divided_down(n), a);
    const Exact share = a.divided_down(n);
    EXPECT_LE(share * n, a);
    Exact more;
    for (std::int64_t k = 0; k < n; ++k) more += a;
    EXPECT_EQ(a * n, more);
    EXPECT_EQ(a * -n, Exact() - more);
  }
}

TEST(Exact, ComparesAsNumbersDo) {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 10'000; ++i) {
    const double a = random_double(random) - random_double(random);
    const double b = random_double(random) - random_double(random);
    if (!fits(std::abs(a)) || !fits(std::abs(b))) continue;
    EXPECT_EQ(Exact(a) < Exact(b), a < b);
    EXPECT_EQ(Exact(a) > Exact(b), a > b);
  }
}

TEST(Exact, CountsDownwards) {
  EXPECT_EQ(static_cast<long>(Exact(2.75).count_down(0)), 2);
  EXPECT_EQ(static_cast<long>(Exact(-2.75).count_down(0)), -3);
  EXPECT_EQ(static_cast<long>(Exact(2.75).count_down(2)), 11);
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 10'000; ++i) {
    const Exact a = Exact(random_double(random)) - Exact(random_double(random));
    const Exact down = Exact::of(a.count_down(62), 62);
    EXPECT_LE(down, a);
    EXPECT_GT(down + Exact::of(1, 62), a);
  }
  const Exact large = Exact::product(0x1p40, 0x1p40) * (std::int64_t{1} << 60);
  EXPECT_EQ(large.count_down(62), static_cast<WideInteger>(1) << 126);
  EXPECT_EQ((Exact() - large).count_down(62), -(static_cast<WideInteger>(1) << 126));
}

}  // namespace
}  // namespace harpe::plan
