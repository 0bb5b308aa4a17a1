// The counted energy is the used energy, for any wraps of the counter and any reading times.

#include <gtest/gtest.h>

#include <random>

#include "harpe/device/hw/rapl/rapl.h"

namespace harpe::device {
namespace {

constexpr std::uint64_t kRange = 262'143'328'850;  // a common range: 262 kJ

/// A package that draws changing power, and the counter that its driver shows.
struct Package {
  std::uint64_t used_uj = 0;   ///< since the beginning
  std::uint64_t shown_uj = 0;  ///< in [0, range)
  Instant now;

  void run(Seconds time, Watts power, std::uint64_t range) {
    const auto used = static_cast<std::uint64_t>((power * time).value * 1e6);
    now = now + time;
    used_uj += used;
    shown_uj = (shown_uj + used) % range;
  }
};

double uniform(std::mt19937_64& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

TEST(EnergyCounter, CountsExactlyWhateverTheScheduleOfReadsUpToOneWrapApart) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Package package;
    package.shown_uj = random() % kRange;
    EnergyCounter counter(kRange);
    counter.add(package.shown_uj, package.now);
    for (int read = 0; read < 200; ++read) {
      const Watts power{uniform(random, 0, 600)};
      // At 600 W, 262 kJ last 437 s.
      package.run({uniform(random, 0, 430)}, power, kRange);
      const Joules total = counter.add(package.shown_uj, package.now);
      ASSERT_NEAR(total.value, static_cast<double>(package.used_uj) * 1e-6, 1e-3);
    }
  }
}

TEST(EnergyCounter, ANewStartIsNoWrapAndCountsNothingThatWasNotUsed) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Package package;
    EnergyCounter counter(kRange);
    // Far enough from both ends of the range: a wrap would need over 2 kW for the second, and the
    // energy used after a new start does not reach the value before it.
    package.shown_uj = kRange / 4 + random() % (kRange / 4);
    counter.add(package.shown_uj, package.now);
    const auto new_start = static_cast<int>(random() % 50);
    double lost = 0;
    for (int read = 0; read < 50; ++read) {
      const Watts power{uniform(random, 0, 600)};
      if (read == new_start) {
        const Seconds before{uniform(random, 0, 0.5)};
        package.run(before, power, kRange);
        lost += (power * before).value;
        package.shown_uj = 0;
      }
      package.run({uniform(random, 0, 0.5)}, power, kRange);
      const double total = counter.add(package.shown_uj, package.now).value;
      const double used = static_cast<double>(package.used_uj) * 1e-6;
      ASSERT_LE(total, used + 1e-3);
      ASSERT_GE(total, used - lost - 1e-3);
    }
  }
}

TEST(EnergyCounter, NeverFallsWhateverItIsGiven) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const std::uint64_t range = random() >> (random() % 64);
    EnergyCounter counter(range);
    Instant now;
    double last = 0;
    for (int read = 0; read < 100; ++read) {
      now.ns += static_cast<std::int64_t>(random() % 100'000'000'000) - 1'000'000'000;
      const double total = counter.add(random() >> (random() % 64), now).value;
      ASSERT_GE(total, last);
      last = total;
    }
  }
}

TEST(EnergyCounter, WithoutAKnownRangeAFallIsANewStart) {
  EnergyCounter counter(0);
  EXPECT_EQ(counter.add(50'000'000, {}).value, 0);
  EXPECT_EQ(counter.add(60'000'000, {1'000'000'000}).value, 10);
  EXPECT_EQ(counter.add(3'000'000, {2'000'000'000}).value, 13);
}

}  // namespace
}  // namespace harpe::device
