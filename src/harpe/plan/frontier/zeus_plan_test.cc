#include <gmock/gmock.h>

#include "harpe/plan/frontier/plan_testing.h"

namespace harpe::plan {
namespace {

using testing::HasSubstr;

TEST(ZeusPlan, WritesOneListAStageAndTheCosts) {
  Plan plan = test_plan(must(gpipe({.stages = 2, .micro_batches = 1})), {}, 1);
  plan.instructions[0][0].clock = {1350};
  plan.instructions[0][1].clock = {900};
  plan.instructions[1][0].clock = {1200};
  plan.instructions[1][1].clock = {0};
  plan.instructions[1].push_back({.kind = InstructionKind::kOptimizer});
  const std::string text = must(zeus_plan(plan));
  EXPECT_EQ(
      text.substr(0, text.find('#')),
      "[\n[('forward', 1350), ('backward', 900)],\n[('forward', 1200), ('backward', 0)],\n]\n");
  EXPECT_THAT(text, HasSubstr("\n# Iteration 0 cost change: 0.0\n"));
  EXPECT_THAT(text, HasSubstr("\n# Iteration 0 total cost: "));
  EXPECT_THAT(text, HasSubstr("\n# Iteration 0 total cost with P2P: "));
}

TEST(ZeusPlan, HasNoPlaceForKnobs) {
  Plan plan = test_plan();
  plan.instructions[1][0].knobs.power_limit = {250};
  EXPECT_THAT(diagnostics_of(zeus_plan(plan)), HasSubstr("has only clocks"));
}

}  // namespace
}  // namespace harpe::plan
