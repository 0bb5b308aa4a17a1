#include "harpe/training/job/all_max_baseline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace harpe::training {
namespace {

using StageEnergy = AllMaxBaseline::StageEnergy;

/// Returns energies of iterations that take a second.
std::vector<StageEnergy> energies(const std::vector<double>& all) {
  std::vector<StageEnergy> stages;
  for (const double energy : all) stages.push_back({energy, Seconds{1}, Seconds{0.5}});
  return stages;
}

/// Returns 0 as the explained energy.
double nothing(int /*stage*/, const StageEnergy& /*iteration*/) {
  return 0;
}

TEST(AllMaxBaseline, IsUnknownUntilItIsMeasured) {
  AllMaxBaseline baseline(2);
  EXPECT_FALSE(baseline.has_time());
  EXPECT_FALSE(baseline.has_energy());
  baseline.add_time({1.2}, {1});
  baseline.add_energy(energies({100, std::nan("")}));
  EXPECT_FALSE(baseline.has_time()) << "it may have been held up";
  baseline.add_time({1.2}, {1});
  EXPECT_TRUE(baseline.has_time());
  EXPECT_FALSE(baseline.has_energy()) << "one stage measures none";
  baseline.add_energy(energies({std::nan(""), 50}));
  EXPECT_TRUE(baseline.has_energy());
  EXPECT_EQ(baseline.energy(), Joules{150});
}

TEST(AllMaxBaseline, IsNotMovedByStallsAndFirstIterations) {
  AllMaxBaseline baseline(1);
  for (int i = 0; i < 15; ++i) {
    const bool odd = i == 0 || i % 3 == 0;
    baseline.add_time({odd ? 21.0 : 1.05}, {1});
    baseline.add_energy(energies({odd ? 5000.0 : 300.0}));
  }
  EXPECT_NEAR(baseline.time().value, 1.05, 1e-12);
  EXPECT_NEAR(baseline.overhead().value, 0.05, 1e-12);
  EXPECT_EQ(baseline.energy(), Joules{300});
  EXPECT_LT(baseline.deviation(), 1e-9);
}

TEST(AllMaxBaseline, IsNotMovedByTheStallOfTwo) {
  for (const bool first : {true, false}) {
    AllMaxBaseline baseline(1);
    baseline.add_time({first ? 60.0 : 1.05}, {1});
    baseline.add_time({first ? 1.05 : 60.0}, {1});
    EXPECT_NEAR(baseline.time().value, 1.05, 1e-12);
    EXPECT_NEAR(baseline.overhead().value, 0.05, 1e-12);
    EXPECT_GT(baseline.deviation(), 1) << "nothing is certain by it";
  }
}

TEST(AllMaxBaseline, FollowsTheNewestFifteen) {
  AllMaxBaseline baseline(1);
  for (int i = 0; i < 100; ++i) baseline.add_time({2}, {1.9});
  for (int i = 0; i < 8; ++i) baseline.add_time({1.4}, {1});
  EXPECT_EQ(baseline.iterations(), AllMaxBaseline::kNewest);
  EXPECT_NEAR(baseline.time().value, 1.4, 1e-12);
  EXPECT_NEAR(baseline.overhead().value, 0.4, 1e-12);
}

TEST(AllMaxBaseline, OverheadIsOfEachIterationBeyondItsOwnComputations) {
  AllMaxBaseline baseline(1);
  // A straggler appears and disappears; the overhead stays.
  for (const double computing : {1.0, 1.3, 1.0, 1.6, 1.3})
    baseline.add_time({computing + 0.2}, {computing});
  EXPECT_NEAR(baseline.overhead().value, 0.2, 1e-12);
  EXPECT_LT(baseline.deviation(), 1e-9);
}

TEST(AllMaxBaseline, IsExplainedOnceAProfileIsThere) {
  AllMaxBaseline baseline(1);
  // The first iterations have a straggler that is not known yet.
  for (const double computing : {1.4, 1.4, 1.0})
    baseline.add_time({computing + 0.1}, {0}, {Seconds{computing}});
  baseline.explain([](std::span<const Seconds> computing) { return computing[0]; });
  EXPECT_NEAR(baseline.overhead().value, 0.1, 1e-12);
  baseline.explain([](std::span<const Seconds>) { return Seconds{0.5}; });
  EXPECT_NEAR(baseline.overhead().value, 0.1, 1e-12) << "what explains an iteration is known";
}

TEST(AllMaxBaseline, EnergyBeyondComputationsStaysWhenAStragglerComes) {
  AllMaxBaseline baseline(2);
  const auto explained = [](int stage, const StageEnergy& one) {
    return (stage == 0 ? 300 : 200) * one.computing.value + 80 * (one.time - one.computing).value;
  };
  for (const double factor : {1.0, 1.0, 1.5, 1.5, 1.5}) {
    const Seconds time{factor + 0.2};
    std::vector<StageEnergy> stages{{0, time, Seconds{factor}}, {0, time, Seconds{1}}};
    for (int stage = 0; stage < 2; ++stage)
      stages[stage].energy = 7 + explained(stage, stages[stage]);
    baseline.add_energy(stages);
  }
  for (const double one : baseline.take_unexplained(explained)) EXPECT_NEAR(one, 14, 1e-9);
  EXPECT_NEAR(baseline.unexplained(0, explained), 7, 1e-9);
}

TEST(AllMaxBaseline, EnergyIsTakenOnceAndOfWholeIterations) {
  AllMaxBaseline baseline(2);
  const auto half = [](int, const StageEnergy& one) { return one.energy / 2; };
  EXPECT_TRUE(baseline.take_unexplained(half).empty());
  baseline.add_energy(energies({100, 50}));
  baseline.add_energy(energies({std::nan(""), 50}));
  baseline.add_energy(energies({200, 50}));
  EXPECT_EQ(baseline.take_unexplained(half), (std::vector<double>{75, 125}));
  EXPECT_TRUE(baseline.take_unexplained(half).empty());
  for (int i = 0; i < 20; ++i) baseline.add_energy(energies({100.0 + i, 0}));
  const std::vector<double> newest = baseline.take_unexplained(half);
  ASSERT_EQ(newest.size(), AllMaxBaseline::kNewest);
  EXPECT_EQ(newest.back(), 59.5);
}

TEST(AllMaxBaseline, SurvivesASnapshot) {
  AllMaxBaseline baseline(2);
  for (int i = 0; i < 5; ++i) {
    baseline.add_time({1.2 + 0.01 * i}, {1});
    baseline.add_energy(energies({100.0 + i, 50}));
  }
  AllMaxBaseline again(2);
  again.add_time({99}, {1});
  again.restore(baseline.kept());
  EXPECT_EQ(again.time(), baseline.time());
  EXPECT_EQ(again.overhead(), baseline.overhead());
  EXPECT_EQ(again.deviation(), baseline.deviation());
  EXPECT_EQ(again.energy(), baseline.energy());
  EXPECT_EQ(again.take_unexplained(nothing), baseline.take_unexplained(nothing));
  again.forget();
  EXPECT_FALSE(again.has_time());
  EXPECT_FALSE(again.has_energy());
}

}  // namespace
}  // namespace harpe::training
