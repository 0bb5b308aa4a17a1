// Counters without a power sensor (RAPL) that are read only at the edges of short windows: the
// estimate is right to about one step of the counter, and the bar is about as wide.

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "harpe/device/measure/energy_estimator.h"

namespace harpe::device {
namespace {

constexpr double kStep = 0.001;  // s
constexpr int kWindows = 1000;

Instant edge_time(double seconds) {
  return {static_cast<std::int64_t>(seconds * 1e9)};
}

struct Coverage {
  int missed = 0;
  double worst = 0, mean_bar = 0;  ///< in units of one step's energy
};

/// Measures windows of that length over constant power. Devices are read shortly before each window
/// (when they are opened), shortly after its start and shortly after its end. With `between` they
/// are also read just before the end.
Coverage windows_of(double length, bool between, unsigned seed) {
  std::mt19937_64 random(seed);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  Coverage coverage;
  for (int i = 0; i < kWindows; ++i) {
    EnergyEstimator estimator({.counter_step = {kStep}, .longest_interval = {60}});
    const double begin = 100 + uniform(0, 1), watts = uniform(5, 300), phase = uniform(0, kStep);
    const auto read = [&](double time) {
      const double counter = watts * kStep * std::floor((time - phase) / kStep);
      estimator.add({.time = edge_time(time), .spread = {1e-6}, .counter = Joules{counter}});
    };
    const double opened = uniform(1e-5, 3e-3), late = uniform(1e-5, 1e-4);
    read(begin - opened);
    const int window = estimator.open(edge_time(begin));
    read(begin + late);
    if (between) read(begin + length - uniform(1e-4, std::min(3e-3, length / 2)));
    read(begin + length + late);
    const EnergyEstimate response = estimator.close(window, edge_time(begin + length));
    const double off = std::abs(response.energy.value - watts * length);
    coverage.missed += off > response.error.value ? 1 : 0;
    coverage.worst = std::max(coverage.worst, off / (watts * kStep));
    coverage.mean_bar += response.error.value / (watts * kStep) / kWindows;
  }
  return coverage;
}

TEST(CounterWithoutPower, WindowsReadOnlyAtTheirEdgesAreRightToAStep) {
  for (const double length : {0.0015, 0.01, 0.1, 1.0, 5.0}) {
    for (const bool between : {false, true}) {
      SCOPED_TRACE(testing::Message() << length << " s, " << (between ? "with" : "without")
                                      << " a reading shortly before the end, seed 1");
      const Coverage coverage = windows_of(length, between, 1);
      EXPECT_LE(coverage.missed, kWindows / 20) << "95 % of the bars hold the truth";
      EXPECT_LT(coverage.worst, 2);
      EXPECT_LT(coverage.mean_bar, 2);
    }
  }
}

}  // namespace
}  // namespace harpe::device
