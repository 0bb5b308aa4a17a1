#include <gmock/gmock.h>

#include "harpe/base/file.h"
#include "harpe/base/source_tree_testing.h"
#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/frontier/plan_testing.h"

namespace harpe::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

void expect_equal(const Plan& a, const Plan& b) {
  EXPECT_EQ(a.job, b.job);
  EXPECT_EQ(a.schedule, b.schedule);
  EXPECT_EQ(a.synthetic, b.synthetic);
  EXPECT_EQ(a.stages, b.stages);
  EXPECT_EQ(a.micro_batches, b.micro_batches);
  EXPECT_EQ(a.chunks, b.chunks);
  EXPECT_EQ(a.copies, b.copies);
  EXPECT_EQ(a.gpus_per_stage, b.gpus_per_stage);
  EXPECT_EQ(a.blocking_power, b.blocking_power);
  EXPECT_EQ(a.transfers, b.transfers);
  EXPECT_EQ(a.placement, b.placement);
  EXPECT_EQ(a.iteration_time, b.iteration_time);
  EXPECT_EQ(a.iteration_energy, b.iteration_energy);
  EXPECT_EQ(a.lower_bound, b.lower_bound);
  EXPECT_EQ(a.instructions, b.instructions);
}

TEST(PlanJson, ReadsBackTheSamePlan) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    for (const auto& [schedule, transfers] : test_pipelines()) {
      SCOPED_TRACE(schedule.name + " " + std::to_string(seed));
      Plan plan = test_plan(schedule, transfers, seed, {83.64});
      plan.lower_bound = 0.99 * plan.iteration_energy;
      expect_equal(must(parse_plan_json(plan_json(plan), "plan")), plan);
    }
  }
}

// Spaces in a job's name stay, and lines of a smaller plan keep their spaces.
TEST(PlanJson, LinesOfALargePlanHaveNoSpacesAndReadBackTheSame) {
  Plan plan = test_plan();
  plan.job = "a job, of two: words";
  auto& list = plan.instructions[0];
  list[0].knobs.label = *Label::of("sm:12");
  EXPECT_THAT(plan_json(plan), HasSubstr(", \"frequency_mhz\": "));
  while (list.size() <= 16'384) list.push_back(list.back());
  const std::string text = plan_json(plan);
  EXPECT_THAT(text, AllOf(HasSubstr("a job, of two: words"), HasSubstr("\"label\":\"sm:12\""),
                          HasSubstr(",\"frequency_mhz\":")));
  EXPECT_EQ(text.find("\", \"frequency"), std::string::npos);
  expect_equal(must(parse_plan_json(text, "plan")), plan);
}

TEST(PlanJson, KeepsWhatOnlySomeInstructionsHave) {
  Plan plan = test_plan();
  plan.copies = 3;
  plan.synthetic = true;
  plan.transfers.mode = Transfers::Mode::kRendezvous;
  plan.instructions[0].push_back({.kind = InstructionKind::kForwardBackward,
                                  .chunk = 0,
                                  .micro_batch = 1,
                                  .backward_chunk = 0,
                                  .backward_micro_batch = 4,
                                  .clock = {1000},
                                  .energy = {1e-7}});
  plan.instructions[1].push_back(
      {.kind = InstructionKind::kSend, .micro_batch = 2, .gradient = true});
  plan.instructions[2].push_back({.kind = InstructionKind::kOptimizer, .time = {0.1}});
  plan.instructions[2][0].fused_with_next = true;
  const Plan again = must(parse_plan_json(plan_json(plan), "plan"));
  expect_equal(again, plan);
  EXPECT_EQ(plan_json(again), plan_json(plan));
}

TEST(PlanJson, LeavesOutWhatNeedsNoSaying) {
  const std::string text = plan_json(test_plan());
  for (const char* const key :
       {"synthetic", "lower_bound_j", "transfers", "placement", "copies", "fused_with_next"}) {
    EXPECT_EQ(text.find(key), std::string::npos) << key;
  }
}

TEST(PlanJson, GivesEveryInstructionALineOfItsOwn) {
  const std::string text = plan_json(test_plan());
  std::size_t instructions = 0;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    instructions += text.substr(begin, end - begin).find("\"name\"") != std::string::npos;
  }
  EXPECT_EQ(instructions, 3U * 2 * 5);
  EXPECT_THAT(text, HasSubstr("{\"name\": \"forward\", \"microbatch\": 0, \"chunk\": 0, "
                              "\"frequency_mhz\": "));
}

TEST(PlanJson, AcceptsAFileWithoutDefaults) {
  const Plan plan = must(parse_plan_json(
      R"({"format": "harpe.plan/1", "job": "j", "schedule": "1f1b", "stages": 1, "microbatches": 1,
          "blocking_power_w": [70], "iteration_time_s": 2, "iteration_energy_j": 5e2,
          "instructions": [[
            {"name": "forward", "microbatch": 0, "frequency_mhz": 1410, "start_s": 0, "time_s": 1,
             "energy_j": 200},
            {"name": "backward", "microbatch": 0, "frequency_mhz": null, "start_s": 1, "time_s": 1,
             "energy_j": 300}]]})",
      "plan"));
  EXPECT_EQ(plan.chunks, 1);
  EXPECT_EQ(plan.gpus_per_stage, 1);
  EXPECT_EQ(plan.placement, std::vector<int>{0});
  EXPECT_EQ(plan.instructions[0][0].clock, Megahertz{1410});
  EXPECT_EQ(plan.instructions[0][1].clock, Megahertz{0});
  EXPECT_EQ(plan.instructions[0][1].chunk, 0);
}

TEST(PlanJson, TheExampleOfTheDocumentationIsAPlan) {
  const std::string page = *read_file(std::filesystem::path(source_tree()) / "docs" / "formats.md");
  const std::size_t begin = page.find("{\"format\": \"harpe.plan/1\"");
  ASSERT_NE(begin, std::string::npos);
  const auto plan = parse_plan_json(page.substr(begin, page.find("```", begin) - begin), "example");
  ASSERT_TRUE(plan.ok()) << plan.error().text();
  Joules energy{0};
  for (const PlannedInstruction& one : plan->instructions.front()) energy += one.energy;
  EXPECT_DOUBLE_EQ(energy.value * plan->gpus_per_stage, plan->iteration_energy.value);
}

TEST(PlanJson, PointsAtAllErrorsAtOnce) {
  std::string text = plan_json(test_plan());
  text = replaced(text, "\"name\": \"forward\", \"microbatch\": 0", "\"name\": \"fwd\"");
  text = replaced(text, "\"microbatch\": 1,", "\"microbatch\": 5,");
  text = replaced(text, "\"chunk\": 0, \"frequency_mhz\": ", "\"chunk\": 1, \"frequency_mhz\": ");
  text = replaced(text, "\"start_s\": ", "\"start_s\": -");
  text = replaced(text, "\"gpus_per_stage\": 2", "\"gpus_per_stage\": 0");
  const auto plan = parse_plan_json(text, "plan.json");
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(
      plan.error().text(),
      AllOf(HasSubstr(
                "plan.json:2:20: expected \"gpus_per_stage\" to be an integer from 1 to 1000000"),
            HasSubstr("plan.json:5:13: unknown instruction 'fwd'"),
            HasSubstr("plan.json:6:38: expected \"microbatch\" to be an integer from 0 to 4")));
}

TEST(PlanJson, RefusesListsThatDoNotFit) {
  const std::string text = plan_json(test_plan());
  const auto error = [&](std::string_view from, std::string_view to) {
    return diagnostics_of(parse_plan_json(replaced(text, from, to), "p"));
  };
  EXPECT_THAT(error("\"stages\": 3", "\"stages\": 2"),
              AllOf(HasSubstr("p:2:43: expected one power for each of the 2 stages, found 3"),
                    HasSubstr("p:4:18: expected one list of instructions")));
  EXPECT_THAT(error("\"chunks\": 1", "\"chunks\": 4000000"), HasSubstr("fewer instructions"));
  EXPECT_THAT(error("\"chunks\": 1", "\"placement\": [0, 3, 1]"),
              HasSubstr("expected an integer from 0 to 2"));
  EXPECT_THAT(error("\"chunks\": 1", "\"placement\": [0, 1, 2, 0, 1, 2]"),
              HasSubstr("\"placement\" has 6 parts"));
  EXPECT_THAT(
      error("\"chunks\": 1", "\"transfers\": {\"mode\": \"overlapped\", \"forward_s\": [1]}"),
      HasSubstr("expected 2 times"));
  EXPECT_THAT(error("harpe.plan/1", "harpe.plan/9"), HasSubstr("expected \"format\""));
  const auto other =
      parse_plan_json("{\"format\": \"harpe.frontier/1\", \"points\": [], \"job\": 1}", "f");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().diagnostics.size(), 1U) << other.error().text();
  EXPECT_THAT(error("\"job\"", "\"jobs\""), HasSubstr("p:1:36: unknown key 'jobs'"));
  EXPECT_THAT(error("\"iteration_time_s\"", "\"seconds\""),
              HasSubstr("\"iteration_time_s\" is missing"));
}

TEST(PlanJson, RefusesAPlanWithoutStages) {
  for (const char* const stages : {"", R"("stages": 0, )", R"("stages": -1, )"}) {
    EXPECT_THAT(diagnostics_of(parse_plan_json(
                    std::string(R"({"format": "harpe.plan/1", )") + stages +
                        R"("microbatches": 1, "blocking_power_w": [], "instructions": []})",
                    "p")),
                HasSubstr("stages"));
  }
}

TEST(PlanJson, RefusesEveryTruncation) {
  const std::string text = plan_json(test_plan());
  for (std::size_t size = 0; size + 2 < text.size(); size += 37) {
    const auto plan = parse_plan_json(std::string_view(text).substr(0, size), "plan");
    ASSERT_FALSE(plan.ok()) << size;
    EXPECT_THAT(plan.error().diagnostics[0].text(), StartsWith("plan:")) << size;
  }
}

TEST(PlanJson, NamesThatAreNotUtf8AreWrittenReadably) {
  Plan plan = test_plan();
  plan.job = "a\xff";
  EXPECT_EQ(must(parse_plan_json(plan_json(plan), "plan")).job, "a\xef\xbf\xbd");
}

/// Returns a plan of one stage with these instructions, given by kind and micro-batch.
Plan plan_with(const std::vector<PlannedInstruction>& list, int micro_batches) {
  return {.stages = 1, .micro_batches = micro_batches, .placement = {0}, .instructions = {list}};
}

TEST(ScheduleOf, TakesFusedPartsAsTheInstructionThatTheyAre) {
  using enum InstructionKind;
  const Plan plan = plan_with({{.kind = kForward, .micro_batch = 0},
                               {.kind = kForward, .micro_batch = 1, .fused_with_next = true},
                               {.kind = kBackward, .micro_batch = 0, .fused_with_next = true},
                               {.kind = kWeight, .micro_batch = 0},
                               {.kind = kSwitch, .micro_batch = 1},
                               {.kind = kRecompute, .micro_batch = 1, .fused_with_next = true},
                               {.kind = kSwitch, .micro_batch = 1, .fused_with_next = true},
                               {.kind = kBackward, .micro_batch = 1},
                               {.kind = kForward, .micro_batch = 2},
                               {.kind = kBackward, .micro_batch = 2, .fused_with_next = true},
                               {.kind = kWeight, .micro_batch = 2}},
                              3);
  const Schedule schedule = must(schedule_of(plan));
  std::vector<InstructionKind> kinds;
  for (const Instruction& i : schedule.lists[0]) kinds.push_back(i.kind);
  EXPECT_THAT(kinds, testing::ElementsAre(kForward, kForwardBackward, kSwitch, kRecomputeBackward,
                                          kForward, kBackward));
  EXPECT_EQ(schedule.lists[0][1].backward_micro_batch, 0);
  EXPECT_EQ(diagnostics_of(validate(schedule)), "");
}

TEST(ScheduleOf, RefusesWhatMakesNoInstruction) {
  using enum InstructionKind;
  const auto error = [](InstructionKind first, InstructionKind second, int micro_batch) {
    return diagnostics_of(
        schedule_of(plan_with({{.kind = first, .micro_batch = 0, .fused_with_next = true},
                               {.kind = second, .micro_batch = micro_batch}},
                              2)));
  };
  const char* const message = "is fused with the next instruction, but a schedule has no such";
  EXPECT_EQ(error(kRecompute, kBackward, 0), "");
  EXPECT_EQ(error(kForward, kBackward, 1), "");
  EXPECT_THAT(error(kRecompute, kBackward, 1), HasSubstr(message));
  EXPECT_THAT(error(kForward, kForward, 1), HasSubstr(message));
  EXPECT_THAT(error(kForward, kWeight, 0), HasSubstr(message));
  EXPECT_THAT(error(kBackward, kWeight, 1), HasSubstr(message));
  EXPECT_THAT(error(kBackward, kOptimizer, 0), HasSubstr(message));
  EXPECT_THAT(error(kSwitch, kForward, 0), HasSubstr(message));
  EXPECT_THAT(diagnostics_of(schedule_of(
                  plan_with({{.kind = kForward, .micro_batch = 0, .fused_with_next = true}}, 1))),
              HasSubstr("the last instruction is fused with a next one"));
}

TEST(ReadPlan, NamesTheFileThatIsMissing) {
  EXPECT_THAT(diagnostics_of(read_plan("/nowhere/plan.json")), HasSubstr("/nowhere/plan.json"));
}

}  // namespace
}  // namespace harpe::plan
