// Counter steps, each known to some milliseconds, placed by a grid fitted to all of them.

#include "harpe/device/measure/counter_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "harpe/device/measure/counter_steps.h"

namespace harpe::device {
namespace {

Instant grid_time(double seconds) {
  return Instant{} + Seconds{seconds};
}

struct Followed {
  std::vector<CounterEdge> edges;
  std::vector<double> truth;  ///< s
};

/// Follows a counter of 10 J per step, read every 20 ms give or take a fifth.
Followed follow(int steps, double jitter, std::mt19937_64& random) {
  constexpr double kPeriod = 0.1;
  std::normal_distribution<double> normal(0, 1);
  std::uniform_real_distribution<double> unit(0, 1);
  std::vector<double> all;
  const double phase = kPeriod * unit(random);
  for (int i = 0; i < steps; ++i) all.push_back(phase + i * kPeriod + jitter * normal(random));
  std::ranges::sort(all);
  CounterSteps learner;
  Followed followed;
  for (double time = 0; time < all.back(); time += 0.02 * (0.8 + 0.4 * unit(random))) {
    const auto count = std::upper_bound(all.begin(), all.end(), time) - all.begin();
    const auto step = learner.add(grid_time(time), {0}, {10.0 * static_cast<double>(count)});
    if (!step || count == 0) continue;  // the first reading gives a step before these
    followed.edges.push_back(
        {step->time, step->sigma, step->value, 0, step->earliest, step->latest});
    followed.truth.push_back(all[static_cast<std::size_t>(count) - 1]);
  }
  return followed;
}

struct Errors {
  double rms = 0, scaled = 0;  ///< in s; relative to the stated deviation
};

Errors errors_of(const std::vector<CounterEdge>& edges, const std::vector<double>& truth) {
  Errors errors;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const double off = (edges[i].time - grid_time(truth[i])).value;
    errors.rms += off * off / static_cast<double>(edges.size());
    errors.scaled += std::pow(off / edges[i].sigma.value, 2) / static_cast<double>(edges.size());
  }
  return {std::sqrt(errors.rms), std::sqrt(errors.scaled)};
}

class Grid : public testing::TestWithParam<double> {};

TEST_P(Grid, SaysBetterWhenStepsWere) {
  const double jitter = GetParam();
  std::mt19937_64 random(3);
  Errors before, after;
  constexpr int kRuns = 40;
  for (int run = 0; run < kRuns; ++run) {
    const Followed followed = follow(200, jitter, random);
    const Errors raw = errors_of(followed.edges, followed.truth);
    const Errors better = errors_of(on_their_grid(followed.edges), followed.truth);
    before.rms += raw.rms / kRuns;
    after.rms += better.rms / kRuns;
    after.scaled += better.scaled / kRuns;
  }
  RecordProperty("before_ms", std::to_string(1e3 * before.rms));
  RecordProperty("after_ms", std::to_string(1e3 * after.rms));
  // Irregular steps are placed no worse than before, regular steps several times better.
  EXPECT_LT(after.rms, before.rms * (jitter < 0.0005 ? 0.4 : 1.02));
  EXPECT_LT(after.scaled, 1.5);
}

INSTANTIATE_TEST_SUITE_P(Jitter, Grid, testing::Values(0.0, 0.0003, 0.001, 0.003, 0.008));

CounterEdge edge(double time, int number, int restarts) {
  return {grid_time(time),       {0.002}, {10.0 * number}, restarts, grid_time(time - 0.01),
          grid_time(time + 0.01)};
}

TEST(CounterGrid, LeavesAloneWhatIsNoGrid) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> gap(0.02, 0.4);
  std::vector<CounterEdge> edges;
  double time = 0;
  for (int i = 0; i < 100; ++i) edges.push_back(edge(time += gap(random), i, 0));
  const std::vector<CounterEdge> same = on_their_grid(edges);
  for (std::size_t i = 0; i < edges.size(); ++i) EXPECT_EQ(same[i].time, edges[i].time);
  edges.resize(5);
  EXPECT_EQ(on_their_grid(edges).size(), 5U);
  EXPECT_TRUE(on_their_grid({}).empty());
}

TEST(CounterGrid, CountsFromTheLastRestartAndLeavesOutliers) {
  std::vector<CounterEdge> edges;
  for (int i = 0; i < 60; ++i) {
    const double off = i % 2 == 0 ? 0.001 : -0.001;
    edges.push_back(edge(0.1 * i + off + (i < 30 ? 0.037 : 0), i, i < 30 ? 0 : 1));
  }
  edges[50] = edge(5.04, 50, 1);
  const std::vector<CounterEdge> better = on_their_grid(edges);
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(better[i].time, edges[i].time);
  for (std::size_t i = 30; i < 60; ++i) {
    if (i == 50) continue;
    EXPECT_NEAR((better[i].time - grid_time(0)).value, 0.1 * static_cast<double>(i), 0.0006) << i;
  }
  EXPECT_EQ(better[50].time, edges[50].time);
}

}  // namespace
}  // namespace harpe::device
