#include "harpe/training/carbon_control/control_state.h"

#include <gtest/gtest.h>

namespace harpe::training {
namespace {

TEST(IterationCount, CountsWhatRanksReport) {
  IterationCount count(101, 100);  // control begins during training
  EXPECT_EQ(count.done(), 101);
  count.observe(150);
  EXPECT_EQ(count.done(), 151);
}

TEST(IterationCount, GoesOnWhereTrainingCountsAnew) {
  IterationCount count;
  count.observe(999);
  count.observe(-1);  // new processes register
  EXPECT_EQ(count.done(), 1000);
  count.observe(0);
  EXPECT_EQ(count.done(), 1001);
  count.observe(499);
  EXPECT_EQ(count.done(), 1500);
  count.observe(2);  // the end of training was not seen
  EXPECT_EQ(count.done(), 1503);
}

TEST(IterationCount, GoesOnWithTrainingThatGoesOnWhereItEnded) {
  IterationCount count;
  for (const std::int64_t newest : {0, 5, -1, 6, 7}) count.observe(newest);
  EXPECT_EQ(count.done(), 8) << "it ended to pause in its first few iterations";
  IterationCount again(151, 50);  // its ranks count iterations since this start only
  for (const std::int64_t newest : {-1, 51, 52}) again.observe(newest);
  EXPECT_EQ(again.done(), 153);
}

TEST(IterationCount, BelievesTrainingThatCountsTheWholeRun) {
  IterationCount count;
  count.observe(999);
  count.observe(-1);
  count.observe(900);  // restarts at its last checkpoint: 100 iterations are repeated
  EXPECT_EQ(count.done(), 901);
  count.observe(1100);
  count.observe(1050);
  EXPECT_EQ(count.done(), 1051);
}

TEST(IterationCount, TakesWhatIsSaidToBeDone) {
  IterationCount count(700, -1);
  EXPECT_EQ(count.done(), 700);
  count.observe(0);
  EXPECT_EQ(count.done(), 701);
}

TEST(ControlState, ReadsBackTheSame) {
  ControlState state;
  state.begun = Seconds{1'764'000'000.25};
  state.deadline = Seconds{1'764'086'400};
  state.done_at_begin = 12;
  state.source = "electricity-maps:DE";
  state.kind = IntensityKind::kAverageLifecycle;
  state.is_paused = true;
  state.pauses_ignored = true;
  state.switched = Seconds{1'764'003'600};
  state.spent = 1234.5;
  state.static_spent = 1300;
  state.decided = DecidedInterval{.from = Seconds{50},
                                  .done = 13,
                                  .speed = 0.75,
                                  .lost = Seconds{60},
                                  .power = Watts{2000},
                                  .weight = 1e-4,
                                  .fastest = Seconds{2},
                                  .length = Seconds{3600}};
  state.elapsed = Seconds{86'400.5};
  state.worked = 70'000;
  state.spread.add({.planned = 3600, .lost = -7});
  const auto read = parse_control_state(control_state_json(state));
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(control_state_json(*read), control_state_json(state));
  EXPECT_EQ(read->decided, state.decided);
  EXPECT_EQ(read->kind, state.kind);
  EXPECT_EQ(read->elapsed, state.elapsed);
  EXPECT_EQ(read->worked, state.worked);
  EXPECT_EQ(read->spread.intervals(), state.spread.intervals());
}

TEST(ControlState, RefusesWhatItCannotHaveWritten) {
  EXPECT_FALSE(parse_control_state("[]").ok());
  EXPECT_FALSE(parse_control_state(R"({"kind": "green"})").ok());
  EXPECT_FALSE(parse_control_state(R"({"progress": [[0, 1]]})").ok());
  EXPECT_FALSE(parse_control_state(R"({"progress": [[1]]})").ok());
  EXPECT_FALSE(parse_control_state(R"({"worked_s": -1})").ok());
  EXPECT_TRUE(parse_control_state(R"({"of a newer version": 1})").ok());
}

}  // namespace
}  // namespace harpe::training
