#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harpe/base/test_directory_testing.h"
#include "harpe/plan/schedule/action_rows.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/plan/schedule/schedule_testing.h"

namespace harpe::plan {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string list_errors(std::string_view text) {
  return diagnostics_of(parse_printed_lists(text, "f"));
}

TEST(PrintedLists, AreReadInAllThatPythonPrints) {
  const auto expected = must(one_f_one_b({.stages = 2, .micro_batches = 2})).lists;
  for (const char* const text :
       {"[0F0, 0F1, 0B0, 0B1]\n[1F0, 1B0, 1F1, 1B1]\n",
        "\xef\xbb\xbf[0F0,0F1,0B0,0B1][1F0,1B0,1F1,1B1]",
        "[0F0, 0F1,\r\n 0B0, 0B1]\r\n\r\n[1F0, 1B0,\n\t1F1, 1B1 ]\n\n",
        "{0: [0F0, 0F1, None, 0B0, 0B1], 1: [None, 1F0, 1B0, 1F1, 1B1, None]}\n",
        "{ 0 : [0F0, 0F1, 0B0, 0B1],\n  1 : [1F0, 1B0, 1F1, 1B1] }",
        "[[0F0, 0F1, 0B0, 0B1], [1F0, 1B0, 1F1, 1B1]]",
        "[['0F0', '0F1', None, '0B0', '0B1'],\n [\"1F0\", '', '1B0', '1F1', '1B1']]"}) {
    SCOPED_TRACE(text);
    EXPECT_TRUE(is_printed_lists(text));
    const Schedule schedule = must(parse_printed_lists(text, "f"));
    EXPECT_EQ(schedule.name, "custom");
    EXPECT_EQ(schedule.lists, expected);
  }
}

TEST(PrintedLists, HaveTheActionsOfTheCsv) {
  const Schedule v =
      must(parse_printed_lists("{0: [0F0, 3F0, (0F1;3B0)OVERLAP_F_B, 3F1, 3I1, 0B0, 3W1, 0B1],\n"
                               " 1: [1F0, 2F0, 1F1, (2F1;2B0)OVERLAP_F_B, 1I0, 1W0, 2B1, 1B1]}",
                               "f"));
  EXPECT_EQ(torch_csv(v),
            "0F0,3F0,(0F1;3B0)OVERLAP_F_B,3F1,3I1,0B0,3W1,0B1\n"
            "1F0,2F0,1F1,(2F1;2B0)OVERLAP_F_B,1I0,1W0,2B1,1B1\n");
  const std::string_view cells =
      "[0F0, 0SEND_F0, 0RECV_B0, 0B0, REDUCE_GRAD]\n[1RECV_F0, 1F0, 1B0, 1SEND_B0]\n";
  EXPECT_EQ(torch_csv(must(parse_printed_lists(cells, "f"))),
            "0F0,0SEND_F0,0RECV_B0,0B0,REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0\n");
  const std::string_view old = "[0F0, 0B0, 0W0]";
  EXPECT_EQ(torch_csv(must(parse_printed_lists(old, "f"))), "0F0,0I0,0W0\n");
  EXPECT_THAT(diagnostics_of(parse_printed_lists(old, "f", TorchDialect::kNew)),
              HasSubstr("0B0 is a full backward, but 0W0 computes its weight gradient again"));
  const std::string_view two_ways = "[0F0, 3F0, 0B0, 3B0]\n[1F0, 2F0, 1B0, 2B0]\n";
  EXPECT_EQ(must(parse_printed_lists(two_ways, "f", TorchDialect::kDetect, 2)).copies, 2);
}

TEST(PrintedLists, SayWhereTheyAreWrong) {
  EXPECT_EQ(list_errors("[0F0, 0f1,\n 0B0 0B1]"), "f:2:6: expected ',' or ']', got '0B1]'");
  EXPECT_EQ(list_errors("[0F0, 0f1,\n 0F, '0B0x', 0WAIT]"),
            "f:1:8: expected an action such as 0F0, got '0f1'\n"
            "f:2:4: expected the micro-batch number after '0F'\n"
            "f:2:10: unexpected 'x' after the action\n"
            "f:2:15: unknown action 'WAIT'; known are F, I, B, W, BW, R, C, SEND_F, RECV_F, "
            "SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD, LOAD, OPTIMIZER, SWITCH, OVERLAP_F_B");
  EXPECT_EQ(list_errors("[0F0, 0B0"), "f:1:10: expected ',' or ']', got the end of the file");
  EXPECT_EQ(list_errors("[0F0, , 0B0]"), "f:1:7: expected an action such as 0F0, got ', 0B0]'");
  EXPECT_EQ(list_errors("[0F0, '0B0]\n"), "f:1:7: this quote does not close on its line");
  EXPECT_EQ(list_errors("[0F0, 0B0]\n1F0, 1B0"), "f:2:1: expected the list of stage 1, got '1F0'");
  EXPECT_EQ(list_errors("[[0F0, 0B0], [1F0, 1B0]] x"),
            "f:1:26: expected the end of the file after the lists, got 'x'");
  EXPECT_EQ(list_errors("[[0F0, 0B0], 1F0]"), "f:1:14: expected the list of stage 1, got '1F0]'");
  EXPECT_EQ(list_errors("[0F0, 0B0]\n []"), "f:2:2: this stage has no action");
  EXPECT_EQ(list_errors("[0F0, 0B0]\n[None]"), "f: stage 1 has no instruction");
  EXPECT_EQ(list_errors("[0F0,\n 0B0, 0F0]"),
            "f:2:7: forward of micro-batch 0 on part 0 appears twice; the first is at line 1, "
            "column 2");
  EXPECT_EQ(list_errors(""), "f:1:1: expected the list of stage 0, got the end of the file");
}

TEST(PrintedLists, HaveKeysThatRiseFromZero) {
  EXPECT_EQ(list_errors("{1: [1F0, 1B0], 0: [0F0, 0B0]}"),
            "f:1:2: expected the list of stage 0, got '1: [1F0'");
  EXPECT_EQ(list_errors("{0: [0F0, 0B0],\n 2: [1F0, 1B0]}"),
            "f:2:2: expected the list of stage 1, got '2: [1F0'");
  EXPECT_EQ(list_errors("{0: [0F0, 0B0], 0: [1F0, 1B0]}"),
            "f:1:17: expected the list of stage 1, got '0: [1F0'");
  EXPECT_EQ(list_errors("{0 [0F0, 0B0]}"), "f:1:4: expected ':', got '[0F0'");
  EXPECT_EQ(list_errors("{0: [0F0, 0B0]"), "f:1:15: expected ',' or '}', got the end of the file");
}

TEST(PrintedLists, EveryTruncationIsAFault) {
  const std::string text = "{0: [0F0, '0F1', 0B0, None, 0B1], 1: [1F0, 1B0, 1F1, 1B1]}";
  ASSERT_EQ(list_errors(text), "");
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_NE(list_errors(std::string_view(text).substr(0, length)), "") << length;
  }
}

TEST(PrintedLists, AreNotTakenForJsonOrCsv) {
  const Schedule schedule = must(one_f_one_b({.stages = 2, .micro_batches = 1}));
  EXPECT_FALSE(is_printed_lists(schedule_json(schedule)));
  EXPECT_FALSE(is_printed_lists(torch_csv(schedule)));
  for (const char* const text : {"", "[", "{}", "[]", "[[]]", " { \"ranks\": []}",
                                 "[[{\"op\": 1}]]", "(0F0;0B0)", "\n0F0"}) {
    EXPECT_FALSE(is_printed_lists(text)) << text;
  }
}

TEST(PrintedLists, AreToldByTheirContentInAFile) {
  const TestDirectory directory;
  const auto read = [&](const std::string& text) {
    const auto path = directory / "schedule";
    EXPECT_TRUE(write_file(path, text).ok());
    return must(read_schedule(path)).lists;
  };
  const Schedule schedule = must(one_f_one_b({.stages = 2, .micro_batches = 1}));
  EXPECT_EQ(read(torch_csv(schedule)), schedule.lists);
  EXPECT_EQ(read(schedule_json(schedule)), schedule.lists);
  EXPECT_EQ(read("[0F0, 0B0]\n[1F0, 1B0]\n"), schedule.lists);
  EXPECT_EQ(read("{0: [0F0, 0B0], 1: [1F0, 1B0]}\n"), schedule.lists);
}

}  // namespace
}  // namespace harpe::plan
