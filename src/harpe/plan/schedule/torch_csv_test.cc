#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harpe/base/source_tree_testing.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/plan/schedule/schedule_testing.h"

namespace harpe::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string torch_errors(std::string_view text, TorchDialect dialect = TorchDialect::kDetect) {
  return diagnostics_of(parse_torch_csv(text, "f", dialect));
}

TEST(TorchCsv, ReadsOneLineAStage) {
  const Schedule schedule = must(parse_torch_csv("0F0,0F1,,0B0,0B1\n1F0,1B0,1F1,1B1\n", "f"));
  EXPECT_EQ(schedule.name, "custom");
  EXPECT_EQ(schedule.stages, 2);
  EXPECT_EQ(schedule.micro_batches, 2);
  EXPECT_EQ(schedule.copies, 1);
  EXPECT_THAT(schedule.placement, ElementsAre(0, 1));
  EXPECT_EQ(schedule.lists, must(one_f_one_b({.stages = 2, .micro_batches = 2})).lists);
}

TEST(TorchCsv, AcceptsByteOrderMarkCrLfSpacesAndTrailingEmptyLines) {
  const std::string_view text = "\xef\xbb\xbf 0F0 , 0B0 ,\r\n\"1F0\",1B0\r\n\r\n\n";
  EXPECT_EQ(must(parse_torch_csv(text, "f")).lists,
            must(one_f_one_b({.stages = 2, .micro_batches = 1})).lists);
}

TEST(TorchCsv, RoundTripsEveryGenerator) {
  for (const ScheduleGenerator& generator : schedule_generators()) {
    for (int p = 1; p <= 8; ++p) {
      for (int m = 1; m <= 17; ++m) {
        const auto schedule = generator.make({.stages = p, .micro_batches = m});
        if (!schedule.ok()) continue;
        const std::string text = torch_csv(*schedule);
        for (const TorchDialect dialect : {TorchDialect::kDetect, TorchDialect::kNew}) {
          const Schedule read = must(parse_torch_csv(text, "f", dialect));
          EXPECT_EQ(read.lists, schedule->lists) << generator.name << " p" << p << " m" << m;
          EXPECT_EQ(read.placement, schedule->placement);
          EXPECT_EQ(read.micro_batches, m);
        }
      }
    }
  }
}

TEST(TorchCsv, RoundTripsEveryAction) {
  const std::string text =
      "LOAD,0UNSHARD,0LOAD0,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,SWITCH,0W0,0RECV_B1,0R1,0B1,"
      "0RESHARD,0REDUCE_GRAD,OPTIMIZER,SEND_B\n"
      "1RECV_F0,(1F0;2B1)OVERLAP_F_B,2F0,2F1,1F1,1C0,1SEND_B0,1B1,1SEND_B1,2B0,RECV_F,REDUCE_"
      "GRAD\n";
  const Schedule schedule = must(parse_torch_csv(text, "f"));
  EXPECT_EQ(torch_csv(schedule), text);
  EXPECT_EQ(schedule.lists[0][4],
            (Instruction{.kind = InstructionKind::kSend, .part = 0, .micro_batch = 0}));
  EXPECT_EQ(
      schedule.lists[0][7],
      (Instruction{.kind = InstructionKind::kRecv, .part = 0, .micro_batch = 0, .gradient = true}));
  EXPECT_EQ(schedule.lists[0][15],
            (Instruction{.kind = InstructionKind::kReduce, .part = 0, .micro_batch = -1}));
  EXPECT_EQ(schedule.lists[1][1], (Instruction{.kind = InstructionKind::kForwardBackward,
                                               .part = 1,
                                               .micro_batch = 0,
                                               .backward_part = 2,
                                               .backward_micro_batch = 1}));
}

TEST(TorchCsv, BothDialectsGiveTheSameSchedule) {
  const std::string new_dialect = "0F0,0F1,0I0,0W0,0B1\n1F0,1B0,1F1,1I1,1W1\n";
  const std::string old_dialect = "0F0,0F1,0B0,0W0,0BW1\n1F0,1BW0,1F1,1B1,1W1\n";
  const Schedule schedule = must(parse_torch_csv(new_dialect, "f"));
  EXPECT_EQ(must(parse_torch_csv(old_dialect, "f")).lists, schedule.lists);
  EXPECT_EQ(must(parse_torch_csv(old_dialect, "f", TorchDialect::kOld)).lists, schedule.lists);
  EXPECT_EQ(torch_csv(schedule), new_dialect);
}

TEST(TorchCsv, AFileWithFullBackwardsOnlyIsInTheNewDialect) {
  EXPECT_EQ(torch_errors("0F0,0B0"), "");
  EXPECT_EQ(torch_errors("0F0,0B0", TorchDialect::kOld),
            "f:1:5: 0B0 is an input gradient, but its weight gradient 0W0 is missing");
}

TEST(TorchCsv, LettersOfTheOtherDialectAreFaults) {
  EXPECT_EQ(torch_errors("0F0,0F1,0I0,0W0,0BW1"),
            "f:1:17: BW does not belong to the new dialect (I, W, B) that this file is in");
  EXPECT_EQ(torch_errors("0F0,0F1,0I0,0W0,0BW1", TorchDialect::kOld),
            "f:1:9: I does not belong to the old dialect (B, W, BW) that this file is in");
  EXPECT_EQ(torch_errors("0F0,0B0,0W0", TorchDialect::kNew),
            "f:1:5: 0B0 is a full backward, but 0W0 computes its weight gradient again");
  EXPECT_EQ(torch_errors("0F0,0BW0,0W0"),
            "f:1:5: 0BW0 is a full backward, but 0W0 computes its weight gradient again");
  EXPECT_EQ(torch_errors("0F0,0I0"),
            "f:1:5: 0I0 is an input gradient, but its weight gradient 0W0 is missing");
}

TEST(TorchCsv, EveryBadCellIsAErrorWithItsPlace) {
  EXPECT_EQ(torch_errors("0F0x, 0f1,F2,0F\n"
                         ",0F0 0B0,(0F1;1B1),(0F1;1B1)OVERLAP_F_Bx\n"
                         "(0F1),(0F1;1W1)OVERLAP_F_B,0F99999999999999999999,5000000F0"),
            "f:1:4: unexpected 'x' after the action\n"
            "f:1:8: expected an action such as 0F0, got '0f1'\n"
            "f:1:11: expected the part number before 'F2'\n"
            "f:1:16: expected the micro-batch number after '0F'\n"
            "f:2:5: unexpected ' 0B0' after the action\n"
            "f:2:19: expected OVERLAP_F_B, got ''\n"
            "f:2:40: unexpected 'x' after the block\n"
            "f:3:1: expected an overlapped block (<part>F<micro-batch>;<part>B<micro-batch>)"
            "OVERLAP_F_B, got '(0F1)'\n"
            "f:3:7: an overlapped block is (<part>F<micro-batch>;<part>B<micro-batch>)OVERLAP_F_B, "
            "got '(0F1;1W1)OVERLAP_F_B'\n"
            "f:3:30: micro-batch number '99999999999999999999' is too large; the largest is "
            "3999999\n"
            "f:3:51: part number '5000000' is too large; the largest is 3999999");
}

TEST(TorchCsv, AnUnknownActionIsNamedWithTheKnownOnes) {
  EXPECT_EQ(torch_errors("0F0,0B0,0WAIT_REDUCE_GRAD"),
            "f:1:10: unknown action 'WAIT_REDUCE_GRAD'; known are F, I, B, W, BW, R, C, SEND_F, "
            "RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD, LOAD, OPTIMIZER, SWITCH, "
            "OVERLAP_F_B");
}

TEST(TorchCsv, InstructionsTwiceOrNeverAreErrorsWithTheirPlace) {
  EXPECT_EQ(torch_errors("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1,1F0"),
            "f:2:17: forward of micro-batch 0 on part 1 appears twice; the first is at line 2, "
            "column 1");
  EXPECT_EQ(torch_errors("0F0,0F1,0B0,0B1\n1F0,1B0,1F1"),
            "f:2:9: backward of micro-batch 1 on part 1 is missing");
  EXPECT_EQ(torch_errors("0F0,0F1,0B0,0B1\n1F0,1B0"),
            "f:2:5: no computation for micro-batch 1 (of 2) on part 1");
  EXPECT_EQ(
      torch_errors("0F0,0SEND_F0,0SEND_F0,0B0"),
      "f:1:14: activation send of micro-batch 0 on part 0 appears twice; the first is at line "
      "1, column 5");
  EXPECT_THAT(torch_errors("0F0,0B0\n2F0,2B0"),
              StartsWith("f:2:1: no computation for part 1, but for part 2"));
}

TEST(TorchCsv, APartOnTwoStagesIsAFault) {
  EXPECT_EQ(torch_errors("0F0,0B0,1F0\n1B0"),
            "f:2:1: part 1 is on stage 1 here, but belongs to stage 0");
}

TEST(TorchCsv, AStageWithoutActionsIsAFault) {
  EXPECT_EQ(torch_errors("0F0,0B0\n\n1F0,1B0"), "f:2:1: this stage has no action");
  EXPECT_THAT(torch_errors("0F0,0B0\n,,\n"), HasSubstr("has no instruction"));
}

TEST(TorchCsv, EmptyAndBinaryFilesAreFaults) {
  EXPECT_EQ(torch_errors(""),
            "f:1:1: expected a line of actions for each stage, but the file is empty");
  EXPECT_EQ(torch_errors("\n\n# nothing\n"),
            "f:1:1: expected a line of actions for each stage, but the file is empty");
  EXPECT_THAT(torch_errors(std::string_view("0F0\0", 4)), StartsWith("f:1:4: NUL byte"));
}

TEST(TorchCsv, EveryTruncationIsAFault) {
  const std::string text = torch_csv(must(dual_pipe_v({.stages = 2, .micro_batches = 4})));
  for (std::size_t length = 0; length + 1 < text.size(); ++length) {
    EXPECT_NE(torch_errors(std::string_view(text).substr(0, length)), "") << length;
  }
}

TEST(TorchCsv, TwoCopiesAreToldByTheCaller) {
  const std::string text = "0F0,3F0,0B0,3B0\n1F0,2F0,1B0,2B0\n";
  EXPECT_EQ(must(parse_torch_csv(text, "f", TorchDialect::kDetect, 2)).copies, 2);
  EXPECT_EQ(must(parse_torch_csv(text, "f")).copies, 1);
  EXPECT_EQ(diagnostics_of(parse_torch_csv(text, "f", TorchDialect::kDetect, 3)),
            "f: 4 model parts cannot be those of 3 equal models");
}

class ReferenceFile : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(folder()))
      GTEST_SKIP() << "no reference schedules in " << folder();
  }
  static std::filesystem::path folder() { return measured_data() / "schedules"; }
  static std::string text(const std::string& file) { return must(read_file(folder() / file)); }
};

TEST_F(ReferenceFile, OfPyTorchIsWrittenAsItWas) {
  for (const char* file : {"dualpipev_4rank_10mb.csv", "torchtitan_custom_4rank_8stage_6mb.csv",
                           "torchtitan_interleaved_2rank_4stage_4mb_comms.csv",
                           "zb1p_2rank_2stagep_compute.csv", "zb1p_2rank_2stagep_comms.csv"}) {
    SCOPED_TRACE(file);
    const std::string expected = text(std::string("pytorch_golden/") + file);
    const Schedule schedule = must(parse_torch_csv(expected, file));
    EXPECT_TRUE(makespan(schedule, [](const Instruction&) { return 1.0; }).has_value());
    std::string lines;
    for (const char c : expected) {  // without idle cells
      const bool cell_begins = lines.empty() || lines.back() == '\n' || lines.back() == ',';
      if (c != ',' || !cell_begins) lines += c;
    }
    if (!lines.ends_with('\n')) lines += '\n';
    EXPECT_EQ(torch_csv(schedule), lines);
  }
}

TEST_F(ReferenceFile, OfTheOldDialectGivesTheSameSchedule) {
  const std::string folder = "pytorch_golden/zb1p_2rank_2stagep_compute";
  EXPECT_EQ(must(parse_torch_csv(text(folder + "_OLD_DIALECT.csv"), "old")).lists,
            must(parse_torch_csv(text(folder + ".csv"), "new")).lists);
}

TEST_F(ReferenceFile, OfTwoCopiesRunsAsTwoAndNotAsOne) {
  const std::string list = text("dualpipe_p4_m12.csv");
  const auto one = [](const Instruction&) { return 1.0; };
  const Schedule two = must(parse_torch_csv(list, "f", TorchDialect::kDetect, 2));
  EXPECT_EQ(two.micro_batches, 6);
  EXPECT_EQ(two.parts(), 8);
  EXPECT_TRUE(makespan(two, one).has_value());
  EXPECT_FALSE(makespan(must(parse_torch_csv(list, "f")), one).has_value());
}

TEST_F(ReferenceFile, OfReverseBackwardsIsRead) {
  const Schedule lifo = must(read_schedule(measured_data() / "schedules/gpipe_lifo_p4_m12.csv"));
  EXPECT_EQ(lifo.lists, must(looped_bfs({.stages = 4, .micro_batches = 12, .chunks = 1})).lists);
}

}  // namespace
}  // namespace harpe::plan
