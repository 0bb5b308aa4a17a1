#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "harpe/base/test_directory_testing.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/plan/schedule/schedule_testing.h"

namespace harpe::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string errors(std::string_view text) {
  return diagnostics_of(parse_schedule_json(text, "f"));
}

/// Returns a document with one stage that runs `instructions`.
std::string one_stage(const std::string& instructions) {
  return "{\"ranks\": [[\n" + instructions + "]]}";
}

constexpr const char* kForward = R"({"op": "forward", "stage": 0, "mb": 0})";
constexpr const char* kBackward = R"({"op": "backward", "stage": 0, "mb": 0})";

TEST(ScheduleJson, ReadsAListByHand) {
  const Schedule schedule = must(parse_schedule_json(
      R"([[{"op": "forward", "stage": 0, "mb": 0}, {"op": "Backward", "stage": 0, "mb": 0}],
          [{"op": "load"}, {"op": "forward", "stage": 1, "mb": 0},
           {"op": "backward", "stage": 1, "mb": 0},
           {"op": "send", "stage": 1, "mb": 0, "gradient": true}]])",
      "f"));
  EXPECT_EQ(schedule.name, "custom");
  EXPECT_EQ(schedule.stages, 2);
  EXPECT_EQ(schedule.micro_batches, 1);
  EXPECT_THAT(schedule.placement, ElementsAre(0, 1));
  EXPECT_THAT(
      schedule.lists[1],
      ElementsAre(
          Instruction{.kind = InstructionKind::kLoad},
          Instruction{.kind = InstructionKind::kForward, .part = 1, .micro_batch = 0},
          Instruction{.kind = InstructionKind::kBackward, .part = 1, .micro_batch = 0},
          Instruction{
              .kind = InstructionKind::kSend, .part = 1, .micro_batch = 0, .gradient = true}));
}

TEST(ScheduleJson, RoundTripsEveryGenerator) {
  for (const ScheduleGenerator& generator : schedule_generators()) {
    const Schedule schedule = must(generator.make({.stages = 3, .micro_batches = 9}));
    const Schedule read = must(parse_schedule_json(schedule_json(schedule), "f"));
    EXPECT_EQ(read.name, schedule.name);
    EXPECT_EQ(read.lists, schedule.lists);
    EXPECT_EQ(read.placement, schedule.placement);
    EXPECT_EQ(read.micro_batches, schedule.micro_batches);
    EXPECT_EQ(read.copies, 1);
  }
}

TEST(ScheduleJson, RoundTripsFixedTimeInstructionsCopiesAndName) {
  Schedule schedule = must(zb_v({.stages = 2, .micro_batches = 1}));
  schedule.name = "mine \"quoted\" \xc3\xa4";
  schedule.copies = 2;
  schedule.lists[0].push_back({.kind = InstructionKind::kOptimizer});
  schedule.lists[0].push_back({.kind = InstructionKind::kReduce, .part = 3});
  schedule.lists[1].push_back(
      {.kind = InstructionKind::kRecv, .part = 1, .micro_batch = 0, .gradient = true});
  const Schedule read = must(parse_schedule_json(schedule_json(schedule), "f"));
  EXPECT_EQ(read.name, schedule.name);
  EXPECT_EQ(read.copies, 2);
  EXPECT_EQ(read.lists, schedule.lists);
}

TEST(ScheduleJson, ANameThatIsNotUtf8IsStillWritten) {
  Schedule schedule = must(gpipe({}));
  schedule.name = "\xff";
  EXPECT_EQ(must(parse_schedule_json(schedule_json(schedule), "f")).name, "\xef\xbf\xbd");
}

TEST(ScheduleJson, EveryErrorHasItsPlace) {
  EXPECT_EQ(
      errors(one_stage("{\"op\": \"foward\", \"stage\": 0, \"mb\": 0},\n"
                       "{\"op\": \"backward\", \"stage\": -1, \"mb\": 0.5},\n"
                       "{\"stage\": 0, \"mb\": 0},\n"
                       " 7,\n"
                       "{\"op\": \"send\", \"gradient\": 1, \"time\": 3},\n"
                       "{\"op\": \"weight\", \"mb\": 4000000}")),
      "f:2:8: unknown instruction 'foward'; did you mean 'forward'?\n"
      "f:3:29: expected \"stage\" to be an integer from 0 to 3999999\n"
      "f:3:39: expected \"mb\" to be an integer from 0 to 3999999\n"
      "f:4:1: \"op\" is missing\n"
      "f:5:2: expected an instruction such as {\"op\": \"forward\", \"stage\": 0, \"mb\": 0}\n"
      "f:6:28: expected true or false\n"
      "f:6:39: unknown key 'time'; known are op, stage, mb, gradient\n"
      "f:7:1: \"stage\" is missing\n"
      "f:7:24: expected \"mb\" to be an integer from 0 to 3999999");
}

TEST(ScheduleJson, InvariantsAreCheckedWithPlaces) {
  EXPECT_EQ(errors(one_stage(std::string(kForward) + ",\n" + kForward + ",\n" + kBackward)),
            "f:3:1: forward of micro-batch 0 on part 0 appears twice; the first is at line 2, "
            "column 1");
  EXPECT_EQ(errors(one_stage(kForward)), "f:2:1: backward of micro-batch 0 on part 0 is missing");
}

TEST(ScheduleJson, PlacementMustFitTheLists) {
  const std::string lists = std::string("\"ranks\": [[") + kForward + ",\n" + kBackward + "]]}";
  EXPECT_EQ(errors("{\"placement\": [0], " + lists), "");
  EXPECT_EQ(errors("{\"placement\": [1], " + lists), "f: part 0 is placed on stage 1 of 1");
  EXPECT_EQ(errors("{\"placement\": [0, 0], " + lists), "f: no computation for part 1");
  EXPECT_THAT(errors("{\"placement\": [], " + lists), StartsWith("f:1:15: expected the list"));
}

TEST(ScheduleJson, TheDocumentMustHaveItsForm) {
  EXPECT_EQ(errors("3"), "f:1:1: expected an object with \"ranks\", or the list of ranks");
  EXPECT_EQ(errors("{}"), "f:1:1: \"ranks\" is missing");
  EXPECT_EQ(errors("[]"), "f:1:1: expected a list of instructions for each stage");
  EXPECT_EQ(errors("[[]]"), "f:1:2: expected the list of the instructions of this stage");
  EXPECT_THAT(errors("{\"copies\": 0, \"name\": 3, \"rank\": []}"),
              testing::AllOf(HasSubstr("f:1:12: expected \"copies\""), HasSubstr("f:1:23: "),
                             HasSubstr("unknown key 'rank'"), HasSubstr("\"ranks\" is missing")));
  EXPECT_THAT(errors("{\"ranks\": [["), StartsWith("f:1:12: not valid JSON"));
  EXPECT_THAT(errors(""), HasSubstr("the text is empty"));
}

TEST(ReadSchedule, TellsTheFormsApartByContent) {
  const TestDirectory directory;
  const std::string name = directory / "schedule";
  const Schedule schedule = must(zb_v({.stages = 2, .micro_batches = 4}));
  for (const std::string& text : {torch_csv(schedule), schedule_json(schedule),
                                  "\xef\xbb\xbf\r\n" + schedule_json(schedule)}) {
    ASSERT_TRUE(write_file(name, text).ok());
    EXPECT_EQ(must(read_schedule(name)).lists, schedule.lists);
  }
  ASSERT_TRUE(write_file(name, "0F0,x").ok());
  EXPECT_EQ(diagnostics_of(read_schedule(name)),
            name + ":1:5: expected an action such as 0F0, got 'x'");
  std::filesystem::remove(name);
  EXPECT_EQ(read_schedule(name).error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace harpe::plan
