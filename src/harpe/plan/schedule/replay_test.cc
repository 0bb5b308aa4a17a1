#include "harpe/plan/schedule/replay.h"

#include <gmock/gmock.h>

#include "harpe/plan/schedule/rules.h"
#include "harpe/plan/schedule/schedule_testing.h"

namespace harpe::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::vector<double>> starts(const Schedule& schedule, const Transfers& transfers,
                                        const std::vector<std::vector<double>>& durations) {
  std::vector<std::vector<Seconds>> seconds;
  for (const auto& list : durations) {
    auto& of_stage = seconds.emplace_back();
    for (const double one : list) of_stage.push_back({one});
  }
  std::vector<std::vector<double>> found;
  for (const auto& list : must(replay(schedule, transfers, seconds)).start) {
    auto& of_stage = found.emplace_back();
    for (const Seconds one : list) of_stage.push_back(one.value);
  }
  return found;
}

Schedule schedule_of_csv(const char* text) {
  return must(parse_torch_csv(text, "f"));
}

TEST(Replay, ARecomputeInsideTheBackwardWaitsForTheGradient) {
  const Schedule fused = schedule_of_csv("0F0,0C0\n1F0,1C0\n");
  EXPECT_THAT(starts(fused, {}, {{1, 3}, {1, 3}}),
              ElementsAre(ElementsAre(0, 5), ElementsAre(1, 2)));
  const Schedule apart = schedule_of_csv("0F0,0R0,0B0\n1F0,1R0,1B0\n");
  EXPECT_THAT(starts(apart, {}, {{1, 1, 2}, {1, 1, 2}}),
              ElementsAre(ElementsAre(0, 1, 5), ElementsAre(1, 2, 3)));
}

TEST(Replay, ABlockNeedsTheInputsOfBothHalvesAndGivesBothAtItsEnd) {
  // Stage 0 holds parts 0 and 3, stage 1 parts 1 and 2.
  const Schedule v = schedule_of_csv(
      "0F0,3F0,(0F1;3B0)OVERLAP_F_B,3F1,3B1,0B0,0B1\n"
      "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n");
  const auto found = starts(v, {}, {{1, 1, 7, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1}});
  EXPECT_EQ(found[0][2], 4);   // the end of 3F0
  EXPECT_EQ(found[1][2], 11);  // 1F1 waits for the whole block, as 2B0 does
  EXPECT_EQ(found[1][4], 13);
}

TEST(Replay, OverlappedTransfersDelayOnlyTheReceiver) {
  const Schedule schedule = schedule_of_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  const Transfers transfers{.mode = {}, .forward = {{0.5}}, .backward = {{0.25}}};
  EXPECT_THAT(starts(schedule, transfers, {{1, 1, 2, 2}, {1, 2, 1, 2}}),
              ElementsAre(ElementsAre(0, 1, 4.75, 7.75), ElementsAre(1.5, 2.5, 4.5, 5.5)));
}

TEST(Replay, BlockingTransfersOccupyBothStages) {
  const Schedule schedule = schedule_of_csv("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n");
  const Transfers transfers{
      .mode = Transfers::Mode::kRendezvous, .forward = {{0.5}}, .backward = {{0.25}}};
  // 0F0 0-1, its transfer 1-1.5, then 0F1 and 1F0; the next transfer waits until 1F0 ends at 3.5.
  EXPECT_THAT(starts(schedule, transfers, {{1, 1, 1, 1}, {2, 2, 1, 1}}),
              ElementsAre(ElementsAre(0, 1.5, 7.25, 8.5), ElementsAre(1.5, 4, 6, 7.25)));
}

TEST(Replay, ExplicitSendsAndReceivesTakeTheirTime) {
  const Schedule schedule = schedule_of_csv(
      "0F0,0SEND_F0,0RECV_B0,0B0\n"
      "1RECV_F0,1F0,1B0,1SEND_B0\n");
  EXPECT_THAT(starts(schedule, {}, {{1, 0.5, 0.25, 2}, {0.5, 1, 2, 0.25}}),
              ElementsAre(ElementsAre(0, 1, 5.25, 5.5), ElementsAre(1.5, 2, 3, 5)));
}

Transfers blocking_transfers() {
  return {.mode = Transfers::Mode::kRendezvous, .forward = {{0.5}}, .backward = {{0.25}}};
}

TEST(Replay, BlockingTransfersHappenWhereTheirCellsStand) {
  const Schedule schedule = schedule_of_csv(
      "0F0,0SEND_F0,0RECV_B0,0B0\n"
      "1RECV_F0,1F0,1B0,1SEND_B0\n");
  EXPECT_THAT(starts(schedule, blocking_transfers(), {{1, 0, 0, 2}, {0, 1, 2, 0}}),
              ElementsAre(ElementsAre(0, 1, 4.75, 4.75), ElementsAre(1.5, 1.5, 2.5, 4.5)));
  // A stage computes between an instruction and its send.
  const Schedule apart = schedule_of_csv(
      "0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n");
  EXPECT_THAT(
      starts(apart, blocking_transfers(), {{1, 1, 0, 0, 0, 1, 0, 1}, {0, 1, 0, 1, 1, 0, 1, 0}}),
      ElementsAre(ElementsAre(0, 1, 2, 2.5, 6.25, 6.25, 7.5, 7.5),
                  ElementsAre(2.5, 2.5, 4, 4, 5, 6, 6.25, 7.25)));
}

TEST(Replay, ABlockingTransferWithOneCellEndsAtTheComputation) {
  const Schedule only_send = schedule_of_csv("0F0,LOAD,0SEND_F0,0B0\n1F0,1B0\n");
  EXPECT_EQ(starts(only_send, blocking_transfers(), {{1, 1, 0, 1}, {1, 1}})[1][0], 2.5);
  const Schedule only_recv = schedule_of_csv("0F0,0F1,0B0,0B1\n1RECV_F0,LOAD,1F0,1B0,1F1,1B1\n");
  const auto found = starts(only_recv, blocking_transfers(), {{1, 1, 1, 1}, {0, 3, 1, 1, 1, 1}});
  EXPECT_EQ(found[0][1], 1.5);
  EXPECT_THAT(found[1], ElementsAre(1.5, 1.5, 4.5, 5.5, testing::_, testing::_));
}

TEST(Replay, NamesTheBlockingSendsThatWaitForEachOther) {
  const std::string sends =
      "; 0SEND_F1 and 1SEND_B0 wait for each other: a blocking send ends with its recv";
  const auto refusal = [](const char* csv, const Transfers& transfers) {
    const Schedule schedule = schedule_of_csv(csv);
    std::vector<std::vector<Seconds>> durations;
    for (const auto& list : schedule.lists) durations.emplace_back(list.size(), Seconds{1});
    return diagnostics_of(replay(schedule, transfers, durations));
  };
  const char* const each_sends_first =
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";
  EXPECT_EQ(refusal(each_sends_first, blocking_transfers()),
            "stages wait for each other in a cycle: stage 1 send of part 1 micro-batch 0 "
            "(1SEND_B0) waits for stage 0 send of part 0 micro-batch 1 (0SEND_F1); 1SEND_B0 and "
            "0SEND_F1 wait for each other: a blocking send ends with its recv");
  EXPECT_EQ(refusal(each_sends_first, {.mode = {}, .forward = {{0.5}}, .backward = {{0.25}}}), "");
  // Gradients take no time, so their transfers do not block.
  EXPECT_EQ(refusal(each_sends_first,
                    {.mode = Transfers::Mode::kRendezvous, .forward = {{0.5}}, .backward = {}}),
            "");
  // Another instruction is between send and recv.
  EXPECT_THAT(refusal("0F0,0SEND_F0,0F1,0SEND_F1,LOAD,0RECV_B0,0B0,0RECV_B1,0B1\n"
                      "1RECV_F0,1F0,1B0,1SEND_B0,LOAD,1RECV_F1,1F1,1B1,1SEND_B1\n",
                      blocking_transfers()),
              HasSubstr(sends));
}

TEST(Replay, SaysWhichStagesWaitForEachOther) {
  const Schedule schedule = schedule_of_csv("0B0,0F0\n1F0,1B0\n");
  const std::vector<std::vector<Seconds>> ones(2, std::vector<Seconds>(2, Seconds{1}));
  EXPECT_EQ(diagnostics_of(replay(schedule, {}, ones)),
            "stages wait for each other in a cycle: stage 0 backward of part 0 micro-batch 0 "
            "waits for stage 0 forward of part 0 micro-batch 0, before which stage 0 waits at "
            "stage 0 backward of part 0 micro-batch 0");
}

TEST(Replay, RefusesWhatDoesNotFit) {
  const Schedule schedule = must(one_f_one_b({.stages = 3, .micro_batches = 2}));
  std::vector<std::vector<Seconds>> durations;
  for (const auto& list : schedule.lists) durations.emplace_back(list.size(), Seconds{1});
  EXPECT_EQ(diagnostics_of(replay(schedule, {}, durations)), "");
  EXPECT_THAT(diagnostics_of(replay(
                  schedule, {.mode = {}, .forward = {{1}}, .backward = {{1}, {-1}}}, durations)),
              testing::AllOf(HasSubstr("forward transfer times: expected 2"),
                             HasSubstr("backward transfer times must be between")));
  durations[1].pop_back();
  EXPECT_THAT(diagnostics_of(replay(schedule, {}, durations)), HasSubstr("a duration for each"));
}

TEST(ScheduleRules, NameWhatAnInstructionWaitsFor) {
  const Schedule schedule = must(early_recompute_one_f_one_b({.stages = 2, .micro_batches = 1}));
  const ScheduleRules rules(schedule);  // stage 0: F0 R0 B0, stage 1: F0 C0
  const auto rules_of = [&](Position at) {
    std::vector<Rule> found;
    for (const Wait& wait : rules.waits(at)) found.push_back(wait.rule);
    return found;
  };
  EXPECT_THAT(rules_of({0, 0}), testing::IsEmpty());
  EXPECT_THAT(rules_of({0, 1}), ElementsAre(Rule::kOrder, Rule::kOwnForward));
  EXPECT_THAT(rules_of({0, 2}),
              ElementsAre(Rule::kOrder, Rule::kOwnForward, Rule::kGradient, Rule::kRecomputed));
  EXPECT_THAT(rules_of({1, 0}), ElementsAre(Rule::kActivation));
  EXPECT_THAT(rules_of({1, 1}), ElementsAre(Rule::kOrder, Rule::kOwnForward));
}

TEST(ScheduleRules, LetDataTravelBetweenCellsOnlyIfTransfersBlock) {
  const Schedule schedule = schedule_of_csv(
      "0F0,0SEND_F0,0RECV_B0,0B0\n"
      "1RECV_F0,1F0,1B0\n");
  const auto travels = [&](Position at, const Transfers& transfers) {
    std::vector<std::pair<Position, bool>> found;
    for (const Wait& wait : ScheduleRules(schedule, transfers).waits(at)) {
      if (wait.boundary >= 0) found.emplace_back(wait.from, is_blocking(wait, transfers));
    }
    return found;
  };
  using Found = std::vector<std::pair<Position, bool>>;
  Transfers transfers = blocking_transfers();
  EXPECT_EQ(travels({1, 0}, transfers), (Found{{{0, 1}, true}}));
  EXPECT_EQ(travels({1, 1}, transfers), Found{});
  EXPECT_EQ(travels({0, 2}, transfers), (Found{{{1, 2}, true}}));  // from the computation: no send
  transfers.backward.clear();
  EXPECT_EQ(travels({0, 2}, transfers), Found{});
  transfers = blocking_transfers();
  transfers.mode = Transfers::Mode::kOverlapped;
  EXPECT_EQ(travels({1, 0}, transfers), Found{});
  EXPECT_EQ(travels({1, 1}, transfers), (Found{{{0, 0}, false}}));
  EXPECT_EQ(travels({0, 2}, transfers), Found{});
}

}  // namespace
}  // namespace harpe::plan
