#include <gtest/gtest.h>

#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/profile/synth.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/training/carbon_control/carbon_controller.h"

namespace harpe::training {
namespace {

plan::PlanTable table_of_plans() {
  const Profile profile = *synthesize({.stages = 2, .imbalance = 1.2, .noise = 0});
  const Frontier frontier = *characterize(one_f_one_b({.stages = 2, .micro_batches = 4}), profile,
                                          {.blocking_power = Watts{80}});
  return *plan::PlanTable::build(frontier, {.plans = 10, .plan = {.effort = Effort::kQuick}});
}

TEST(JobPaces, AreOfAllPipelinesWithWhatIterationsTakeBeyondThem) {
  const plan::PlanTable table = table_of_plans();
  const Seconds overhead{0.25};
  const JobPaces paces = job_paces(table, {.pipelines = 3, .gpus = 6, .overhead = overhead});
  ASSERT_EQ(paces.iterations.size(), table.plans().size());
  EXPECT_EQ(paces.fastest(), table.plans().front().time + overhead);
  for (std::size_t i = 0; i < paces.iterations.size(); ++i) {
    const plan::TablePlan& plan = table.plans()[i];
    EXPECT_EQ(paces.iterations[i].time, plan.time + overhead);
    // Two GPUs of each of three pipelines wait during the overhead.
    EXPECT_NEAR(paces.iterations[i].energy.value, 3 * (plan.energy.value + 2 * 80 * overhead.value),
                1e-6);
  }
}

TEST(JobPaces, NoneIsFasterThanTheStragglerThatAllWaitFor) {
  const plan::PlanTable table = table_of_plans();
  const Seconds slow = table.plans().front().time * 1.1;
  const JobPaces paces = job_paces(table, {.pipelines = 2, .gpus = 4, .slowest_pipeline = slow});
  EXPECT_EQ(paces.fastest(), slow);
  for (const carbon::PieceCost& one : paces.iterations) EXPECT_GE(one.time, slow);
  EXPECT_TRUE(carbon::PaceCurve::make(paces.iterations).ok());
}

}  // namespace
}  // namespace harpe::training
