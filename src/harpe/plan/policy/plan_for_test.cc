// The plan for an objective, which is the same for a command and for a job.

#include "harpe/plan/policy/plan_for.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "harpe/plan/policy/plan_choice.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::plan {
namespace {

using Kind = Objective::Kind;
const PlanOptions kOptions{.effort = Effort::kQuick};

/// Returns the clocks of each stage, in the order of its list.
std::vector<std::vector<Megahertz>> clocks_of(const Plan& plan) {
  std::vector<std::vector<Megahertz>> clocks;
  for (const auto& stage : plan.instructions) {
    std::vector<Megahertz>& of_stage = clocks.emplace_back();
    for (const PlannedInstruction& instruction : stage) of_stage.push_back(instruction.clock);
  }
  return clocks;
}

class PlanForObjective : public testing::Test {
 protected:
  PlanForObjective()
      : frontier_(*characterize(*Pipeline::build(*one_f_one_b({.stages = 4, .micro_batches = 6})),
                                *synthesize({.stages = 4, .imbalance = 1.3}),
                                {.blocking_power = Watts{80}})),
        reference_{.fastest = frontier_.min_time(), .all_max = frontier_.all_max().iteration_time} {
  }

  /// Returns the choice of a job whose table includes the plan for the objective's time.
  const TablePlan& chosen_by_job(const Objective& objective) {
    const auto time = time_of(objective, reference_);
    const PlanTable::Options exact{.times = {time.value_or(reference_.fastest)}, .plan = kOptions};
    table_ = PlanTable::merged(*PlanTable::build(frontier_, {.plans = 20, .plan = kOptions}),
                               *PlanTable::build(frontier_, exact));
    const PlanChoice choice = choose_plans(*table_, objective, Seconds{0}, 1, {});
    return table_->plans()[choice.plan_of.front().plan];
  }

  Frontier frontier_;
  ReferenceTimes reference_;
  std::optional<PlanTable> table_;
};

TEST_F(PlanForObjective, IsTheOneThatAJobChooses) {
  const double fastest = reference_.fastest.value;
  for (const Objective& objective :
       {Objective{Kind::kSlowdown, 0}, Objective{Kind::kSlowdown, 0.03},
        Objective{Kind::kDeadline, fastest * 1.07}, Objective{Kind::kStragglerTime, fastest * 1.2},
        Objective{Kind::kStragglerFactor, 1.1}, Objective{Kind::kLeastEnergy}}) {
    SCOPED_TRACE(text_of(objective));
    const auto plan = plan_for(frontier_, objective, reference_, kOptions);
    ASSERT_TRUE(plan.ok()) << plan.error().text();
    EXPECT_EQ(clocks_of(*plan), chosen_by_job(objective).clocks);
  }
}

TEST_F(PlanForObjective, DrawsNoMoreThanItsCapAndIsAsFastAsThePlansOfAJob) {
  const Plan all_max = frontier_.all_max();
  const Watts cap = all_max.iteration_energy / all_max.iteration_time * 0.8;
  const Objective objective{Kind::kPowerCap, cap.value};
  const auto plan = plan_for(frontier_, objective, reference_, kOptions);
  ASSERT_TRUE(plan.ok()) << plan.error().text();
  EXPECT_LE(plan->iteration_energy / plan->iteration_time, cap * (1 + 1e-9));
  const TablePlan& of_job = chosen_by_job(objective);
  EXPECT_LE(of_job.energy / of_job.time, cap * (1 + 1e-9));
  EXPECT_LE(plan->iteration_time, of_job.time * (1 + 1e-9));
}

TEST_F(PlanForObjective, ThatCannotBeMetSaysWhatIsPossible) {
  const auto plan =
      plan_for(frontier_, {Kind::kDeadline, reference_.fastest.value / 2}, reference_, kOptions);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::kInfeasible);
}

}  // namespace
}  // namespace harpe::plan
