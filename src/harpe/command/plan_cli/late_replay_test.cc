#include "harpe/command/plan_cli/late_replay.h"

#include <gmock/gmock.h>

#include <string>

#include "harpe/plan/frontier/plan_testing.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::command {
namespace {

Plan plan_of(double seconds, double joules) {
  Plan plan;
  plan.iteration_time = Seconds{seconds};
  plan.iteration_energy = Joules{joules};
  return plan;
}

/// Returns the text for a plan of `free` joules, or `late` with late clocks; all-max needs 1000.
std::string words(double free, double late, double late_time = 10) {
  Planned planned;
  planned.all_max = plan_of(10, 1000);
  planned.chosen = plan_of(10, free);
  planned.late_replay = plan_of(late_time, late);
  return free_changes_words(planned, "it");
}

TEST(LateReplay, SaysWhatIsLeft) {
  EXPECT_EQ(words(862.7, 870.4),
            "assumed to be free; with 10 ms each it saves 12.96 %, not 13.73 %");
  EXPECT_EQ(
      words(862.7, 870.4, 10.12),
      "assumed to be free; with 10 ms each it saves 12.96 %, not 13.73 %, and takes 1.20 % longer");
  EXPECT_EQ(words(862.7, 862.701), "assumed to be free; with 10 ms each it still saves 13.73 %");
}

TEST(LateReplay, SaysWhatAPlanThatSavesNothingOrLosesDoes) {
  EXPECT_EQ(words(862.7, 1000),
            "assumed to be free; with 10 ms each it saves nothing, not 13.73 %");
  EXPECT_EQ(
      words(862.7, 1021),
      "assumed to be free; with 10 ms each it needs 2.10 % more than all-max, not 13.73 % less");
  EXPECT_EQ(words(1000, 1000), "assumed to be free; with 10 ms each it saves nothing");
  EXPECT_EQ(words(1000, 1021),
            "assumed to be free; with 10 ms each it needs 2.10 % more than all-max, not the same");
  EXPECT_EQ(
      words(1010, 1021),
      "assumed to be free; with 10 ms each it needs 2.10 % more than all-max, not 1.00 % more");
  EXPECT_EQ(words(1021, 1021),
            "assumed to be free; with 10 ms each it still needs 2.10 % more than all-max");
}

/// The replay of the plan for no slowdown.
struct Replayed {
  Frontier frontier;
  Planned planned;
};

Replayed replayed(double forward_seconds, Seconds waits_until = Seconds{0}) {
  const Profile profile =
      plan::must(synthesize({.stages = 3, .forward_seconds = forward_seconds, .imbalance = 1.3}));
  const Frontier frontier = plan::must(characterize(one_f_one_b({.stages = 3, .micro_batches = 4}),
                                                    profile, {.blocking_power = Watts{80}}));
  Planned planned;
  planned.all_max = frontier.all_max();
  planned.waits_until = waits_until;
  planned.chosen = waits_until > Seconds{0} ? plan::must(frontier.plan_for_straggler(waits_until))
                                            : plan::must(frontier.fastest_plan());
  planned.late_replay = replayed_late(frontier, planned);
  return {frontier, planned};
}

TEST(LateReplay, HasTheSameClocksAndCostsMore) {
  const auto [frontier, planned] = replayed(0.05);
  ASSERT_TRUE(planned.late_replay);
  const Plan& late = *planned.late_replay;
  EXPECT_EQ(late.clock_changes(), planned.chosen.clock_changes());
  EXPECT_GT(late.iteration_energy, planned.chosen.iteration_energy);
  EXPECT_GE(late.iteration_time, planned.chosen.iteration_time);
}

TEST(LateReplay, WaitsForAStragglerAsThePlanDoes) {
  const Seconds wait_until = replayed(0.05).frontier.max_time() * 1.5;
  const auto [frontier, planned] = replayed(0.05, wait_until);
  ASSERT_TRUE(planned.late_replay);
  EXPECT_EQ(planned.late_replay->iteration_time, wait_until);
}

TEST(LateReplay, CountsClocksThatOutlastComputationsInThoseAfterThem) {
  const auto [frontier, planned] = replayed(0.002);
  ASSERT_TRUE(planned.late_replay);
  // Nearly all of a stage runs at old clocks.
  EXPECT_GT(planned.late_replay->iteration_time, planned.chosen.iteration_time * 1.01);
}

TEST(LateReplay, IsNotMadeWhereNothingIsFree) {
  auto [frontier, planned] = replayed(0.05);
  planned.free_switching = planned.chosen;
  EXPECT_FALSE(replayed_late(frontier, planned));
  planned.free_switching.reset();
  planned.chosen = frontier.all_max();
  planned.late_replay = replayed_late(frontier, planned);
  EXPECT_FALSE(planned.late_replay);
  EXPECT_EQ(free_changes_words(planned, "it"), "assumed to be free");
  EXPECT_TRUE(late_replay_json(planned).is_null());
}

}  // namespace
}  // namespace harpe::command
