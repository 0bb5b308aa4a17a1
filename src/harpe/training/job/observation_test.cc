#include "harpe/training/job/observation.h"

#include <gtest/gtest.h>

#include <limits>

#include "harpe/plan/schedule/schedule.h"

namespace harpe::training {
namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

/// Two pipelines of two stages, each with a forward and a backward.
class ObservationTest : public ::testing::Test {
 protected:
  FinishedIteration iteration(double time) const {
    FinishedIteration one;
    one.items = work_.items();
    one.groups.assign(4, {.ranks = 1, .time = Seconds{time}, .energy = Joules{100}});
    one.item_time.assign(2 * one.items, 0.1F);
    one.item_energy.assign(2 * one.items, 30);
    one.item_error.assign(2 * one.items, 0);
    return one;
  }

  plan::ScheduleWork work_{*one_f_one_b({.stages = 2, .micro_batches = 1})};
  Observation observed_{{.data = 2, .stages = 2}, work_};
};

TEST_F(ObservationTest, IsTheMeanOfPipelines) {
  FinishedIteration one = iteration(1);
  one.item_time[one.item(1, 0)] = 0.3F;
  ASSERT_TRUE(observed_.add(one));
  EXPECT_NEAR(observed_.stage(0).work.value, 0.3, 1e-6) << "0.2 and 0.1";
  EXPECT_NEAR(observed_.stage(0).waiting.value, 0.7, 1e-6);
  EXPECT_NEAR(observed_.stage(1).work.value, 0.2, 1e-6);
  EXPECT_NEAR(observed_.stage(1).waiting_power->value, 50, 1e-4) << "40 J in 0.8 s";
  EXPECT_EQ(observed_.summary({}).longest, 0);
}

TEST_F(ObservationTest, LeavesOutIterationsThatAreNotWhole) {
  FinishedIteration one = iteration(1);
  one.groups[3].ranks = 0;
  EXPECT_FALSE(observed_.add(one));
  one = iteration(1);
  one.item_time[2] = kUnknown;
  EXPECT_FALSE(observed_.add(one));
  EXPECT_EQ(observed_.iterations(), 0);
  EXPECT_TRUE(observed_.summary({}).stages.empty());
  EXPECT_FALSE(observed_.summary({}).longest);
}

TEST_F(ObservationTest, KnowsNoPowerWhereNoneIsMeasured) {
  FinishedIteration one = iteration(1);
  one.groups[2].energy = {std::numeric_limits<double>::quiet_NaN()};
  ASSERT_TRUE(observed_.add(one));
  EXPECT_FALSE(observed_.stage(0).energy);
  EXPECT_FALSE(observed_.stage(0).waiting_power);
  EXPECT_FALSE(observed_.energy(0));
  ASSERT_TRUE(observed_.add(iteration(1)));
  EXPECT_EQ(observed_.stage(0).energy, Joules{100});
}

TEST_F(ObservationTest, KnowsTheClockOfAStageWhereAllItsGpusReportOne) {
  ASSERT_TRUE(observed_.add(iteration(1)));
  EXPECT_FALSE(observed_.stage(0).clock);
  FinishedIteration one = iteration(1);
  for (std::size_t group = 0; group < 4; ++group)
    one.groups[group].clock = Megahertz{1400 + 10 * static_cast<int>(group)};
  ASSERT_TRUE(observed_.add(one));
  EXPECT_EQ(observed_.stage(0).clock, Megahertz{1410}) << "1400 and 1420";
  EXPECT_EQ(observed_.stage(1).clock, Megahertz{1420});
  one.groups[2].clock = {};
  ASSERT_TRUE(observed_.add(one));
  EXPECT_EQ(observed_.stage(0).clock, Megahertz{1410});
}

TEST_F(ObservationTest, AStallHardlyMovesItAndAChangeDoes) {
  for (int i = 0; i < 200; ++i) observed_.add(iteration(1));
  observed_.add(iteration(600));
  EXPECT_NEAR(observed_.iteration_time().value, 1.02, 1e-9);
  for (int i = 0; i < 500; ++i) observed_.add(iteration(4));
  EXPECT_NEAR(observed_.iteration_time().value, 4, 0.1);
}

}  // namespace
}  // namespace harpe::training
