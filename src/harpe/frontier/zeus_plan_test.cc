#include "harpe/frontier/zeus_plan.h"

#include <gmock/gmock.h>

#include "harpe/frontier/plan_testing.h"

namespace harpe {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Stages = std::vector<std::vector<ZeusInstruction>>;

TEST(ZeusPlan, WritesOneListAStageAndTheCosts) {
  Plan plan = test_plan(must(gpipe({.stages = 2, .micro_batches = 1})), {}, 1);
  plan.instructions[0][0].clock = {1350};
  plan.instructions[0][1].clock = {900};
  plan.instructions[1][0].clock = {1200};
  plan.instructions[1][1].clock = {0};
  plan.instructions[1].push_back({.kind = InstructionKind::kOptimizer});
  const std::string text = zeus_plan(plan);
  EXPECT_EQ(
      text.substr(0, text.find('#')),
      "[\n[('forward', 1350), ('backward', 900)],\n[('forward', 1200), ('backward', 0)],\n]\n");
  EXPECT_THAT(text, HasSubstr("\n# Iteration 0 cost change: 0.0\n"));
  EXPECT_THAT(text, HasSubstr("\n# Iteration 0 total cost: "));
  EXPECT_THAT(text, HasSubstr("\n# Iteration 0 total cost with P2P: "));
}

TEST(ZeusPlan, ReadsBackWhatItWrites) {
  const Plan plan = test_plan(must(zb_h1({.stages = 3, .micro_batches = 4})), {}, 2);
  const Stages stages = must(parse_zeus_plan(zeus_plan(plan), "f"));
  ASSERT_EQ(stages.size(), plan.instructions.size());
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    ASSERT_EQ(stages[stage].size(), plan.instructions[stage].size());
    for (std::size_t i = 0; i < stages[stage].size(); ++i) {
      EXPECT_EQ(stages[stage][i].name, name(plan.instructions[stage][i].kind));
      EXPECT_EQ(stages[stage][i].clock, plan.instructions[stage][i].clock);
    }
  }
}

TEST(ParseZeusPlan, AcceptsBothForms) {
  const Stages named = {{{"forward", {1740}}, {"backward", {1725}}}, {{"forward", {0}}}};
  EXPECT_EQ(
      must(parse_zeus_plan("[[('forward', 1740), ('backward', 1725)], [('forward', 0)]]", "f")),
      named);
  EXPECT_EQ(must(parse_zeus_plan(
                "[\n[1740, 1725],\n[1740, 1740],\n]\n# Iteration 0: cost change 0.03\n", "f")),
            (Stages{{{"", {1740}}, {"", {1725}}}, {{"", {1740}}, {"", {1740}}}}));
}

TEST(ParseZeusPlan, AcceptsWhatPythonAccepts) {
  const Stages expected = {{{"forward", {1740}}, {"backward", {1725}}}};
  for (const char* const text :
       {"[[(\"forward\", 1740), (\"backward\", 1725)]]",
        "([['forward', 1740], ('backward', 1725,)],)",
        "# first\n[ # stages\n [('forward', 1740,), # one\r\n ('backward', 1725)\t], ]",
        "\xef\xbb\xbf[[('forward',1740),('backward',(1725))]]",
        "((([([('forward', 1740), ('backward', 1725)])])))"}) {
    EXPECT_EQ(must(parse_zeus_plan(text, "f")), expected) << text;
  }
}

TEST(ParseZeusPlan, NeverRunsOrGuesses) {
  const auto fault = [](std::string_view text) { return faults_of(parse_zeus_plan(text, "f")); };
  EXPECT_THAT(fault("__import__('os').system('true')"), HasSubstr("f:1:1: expected a list"));
  EXPECT_THAT(fault("[[1740 + 5]]"), HasSubstr("f:1:8: expected ',' or ']', found '+'"));
  EXPECT_THAT(fault("[[1740]] * 4"), HasSubstr("f:1:10: expected the end of the file"));
  EXPECT_THAT(fault("[[1740.5]]"), HasSubstr("f:1:3: expected a list, a name in quotes"));
  EXPECT_THAT(fault("[[('for\\x77ard', 1740)]]"), HasSubstr("escapes"));
  EXPECT_THAT(fault("[[('forward, 1740)]]"), HasSubstr("f:1:4: the string has no closing quote"));
  EXPECT_THAT(fault("[[1740, 1725]"), HasSubstr("f:1:14: expected ']', found the end"));
  EXPECT_THAT(fault("[[1740, 1725"), HasSubstr("found the end of the file"));
  EXPECT_THAT(fault("[[1740)]"), HasSubstr("found ')'"));
  EXPECT_THAT(fault("[,]"), HasSubstr("f:1:2"));
  EXPECT_THAT(fault(""), HasSubstr("f:1:1: expected a list, found the end of the file"));
  EXPECT_THAT(fault(std::string(100'000, '[')), HasSubstr("nested too deep"));
}

TEST(ParseZeusPlan, PointsAtAllWrongInstructions) {
  const std::string faults =
      faults_of(parse_zeus_plan("[[('forward', 1740), 1725],\n ('backward', 1.0e3) and\n", "f"));
  EXPECT_THAT(faults, HasSubstr("f:2:15"));
  EXPECT_THAT(faults_of(parse_zeus_plan("[[('forward', 1740), 1725, (1740, 'forward')],\n"
                                        " [('forward', -5), ('', 2), ('a', 'b', 3)], [], 7]",
                                        "f")),
              AllOf(HasSubstr("f:1:22: a clock without a name"),
                    HasSubstr("f:1:28: expected an instruction such as"),
                    HasSubstr("f:2:15: expected a clock from 0 to 100000 MHz, found -5"),
                    HasSubstr("f:2:21: the name is empty"), HasSubstr("f:2:29: expected an"),
                    HasSubstr("f:2:45: expected the list of the instructions of a stage"),
                    HasSubstr("f:2:49: expected the list")));
}

}  // namespace
}  // namespace harpe
