// An iteration does the same work under every schedule, however its profile was measured.

#include "harpe/plan/frontier/priced_parts.h"

#include <gmock/gmock.h>

#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/frontier/plan_testing.h"
#include "harpe/plan/frontier/verify.h"
#include "harpe/plan/profile/chunks.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kStages = 4, kMicroBatches = 8;

Profile profile_of(bool splits, int chunks) {
  return must(synthesize(
      {.gpu = "a100-pcie", .stages = kStages, .chunks = chunks, .split_backward = splits}));
}

Schedule schedule_of(std::string_view name, int chunks = 2) {
  return must(
      make_schedule(name, {.stages = kStages, .micro_batches = kMicroBatches, .chunks = chunks}));
}

bool has(const Schedule& schedule, InstructionKind kind) {
  for (const auto& list : schedule.lists) {
    for (const Instruction& i : list)
      if (i.kind == kind) return true;
  }
  return false;
}

struct Work {
  Seconds time{0};
  Joules energy{0};
};

/// Returns the work of one micro-batch at the highest clock, summed over all stages.
Work work_of_micro_batch(const Profile& profile) {
  Work work;
  for (const InstructionProfile& entry : profile.entries()) {
    work.time += all_max_point(entry.points).time;
    work.energy += all_max_point(entry.points).energy;
  }
  return work;
}

Work work_of(const Plan& plan) {
  Work work;
  for (const auto& list : plan.instructions) {
    for (const PlannedInstruction& i : list) {
      work.time += i.time;
      work.energy += i.energy;
    }
  }
  return work;
}

TEST(EqualWork, EverySchedulePricesTheSameWorkWhateverTheProfileSplits) {
  int priced = 0, refused = 0;
  for (const bool splits : {false, true}) {
    for (const int measured_chunks : {1, 2, 3}) {
      const Profile profile = profile_of(splits, measured_chunks);
      const Work each = work_of_micro_batch(profile);
      for (const ScheduleGenerator& generator : schedule_generators()) {
        for (const int chunks : {1, 2, 4}) {
          if (!generator.uses_chunks && chunks != 2) continue;
          const Schedule schedule = schedule_of(generator.name, chunks);
          SCOPED_TRACE(std::string(generator.name) + ", " + std::to_string(chunks) + " chunks; " +
                       (splits ? "split, " : "whole, ") + std::to_string(measured_chunks));
          const auto frontier = characterize(schedule, profile, {.blocking_power = Watts{70}});
          const bool needs_more = has(schedule, InstructionKind::kRecompute) ||
                                  has(schedule, InstructionKind::kRecomputeBackward) ||
                                  (has(schedule, InstructionKind::kWeight) && !splits);
          ASSERT_EQ(frontier.ok(), !needs_more);
          if (needs_more) {
            EXPECT_THAT(frontier.error().text(),
                        testing::ContainsRegex("no [a-z_]+ rows for stages 0 to 3, which"));
            ++refused;
            continue;
          }
          ++priced;
          const Plan plan = frontier->all_max();
          EXPECT_NEAR(work_of(plan).time / (each.time * kMicroBatches), 1, 1e-9);
          EXPECT_NEAR(work_of(plan).energy / (each.energy * kMicroBatches), 1, 1e-9);
          EXPECT_THAT(verify_plan(plan, schedule, profile, nullptr).diagnostics, IsEmpty());
        }
      }
    }
  }
  EXPECT_GT(priced, 50);
  EXPECT_GT(refused, 20);
}

TEST(EqualWork, RefusesAPlanThatLeavesTheWeightGradientOut) {
  const Schedule schedule = schedule_of("1f1b");
  const Profile split = profile_of(true, 1);
  std::vector<InstructionProfile> entries(split.entries().begin(), split.entries().end());
  std::erase_if(entries, [](const auto& e) { return e.kind == InstructionKind::kWeight; });
  const Profile without = split.with_entries(std::move(entries));
  const Plan plan = must(characterize(schedule, without, {})).all_max();
  EXPECT_THAT(verify_plan(plan, schedule, without, nullptr).diagnostics, IsEmpty());
  EXPECT_THAT(verify_plan(plan, schedule, split, nullptr).diagnostics, testing::Not(IsEmpty()));
}

/// A stage without these rows would do less work than measured.
TEST(EqualWork, RefusesRowsForWeightGradientsOfSomeStagesAlone) {
  for (const int chunks : {1, 2}) {
    const Profile split = profile_of(true, chunks);
    std::vector<InstructionProfile> entries(split.entries().begin(), split.entries().end());
    std::erase_if(entries, [&](const auto& e) {
      return e.kind == InstructionKind::kWeight && e.stage == 3 && e.chunk == chunks - 1;
    });
    const auto frontier = characterize(schedule_of("1f1b"), split.with_entries(entries), {});
    ASSERT_FALSE(frontier.ok());
    EXPECT_THAT(frontier.error().text(), HasSubstr("no weight rows for stage 3, which"));
  }
}

TEST(EqualWork, NamesWhatTheScheduleDoesNotUse) {
  const Profile profile = test_profile(kStages, 1, true);
  EXPECT_THAT(unused_rows(schedule_of("zb-h1"), profile),
              ElementsAre(HasSubstr("rows of recompute (stages 0 to 3)"),
                          HasSubstr("rows of recompute_backward (stages 0 to 3)")));
  EXPECT_THAT(unused_rows(schedule_of("1f1b"), profile_of(true, 1)), IsEmpty());
  const Schedule half = must(one_f_one_b({.stages = 2, .micro_batches = 2}));
  EXPECT_THAT(unused_rows(half, profile_of(false, 1)),
              ElementsAre(HasSubstr("has 4 stages, of which the schedule uses 2")));
}

TEST(EqualWork, WholesTakeWhatTheirPartsTake) {
  const Profile split = profile_of(true, 1);
  const Profile whole = with_rows_of_wholes(schedule_of("1f1b"), split);
  for (int stage = 0; stage < kStages; ++stage) {
    EXPECT_THAT(whole.points(stage, 0, InstructionKind::kWeight), IsEmpty());
    const auto input = split.points(stage, 0, InstructionKind::kBackward);
    const auto sum = whole.points(stage, 0, InstructionKind::kBackward);
    ASSERT_EQ(sum.size(), input.size());
    for (std::size_t k = 0; k < sum.size(); ++k) {
      const OperatingPoint& weight =
          *find_point(split.points(stage, 0, InstructionKind::kWeight), sum[k].setting());
      EXPECT_EQ(sum[k].time, input[k].time + weight.time);
      EXPECT_EQ(sum[k].energy, input[k].energy + weight.energy);
    }
  }
  // Each instruction of the schedule has one clock.
  const Plan plan = must(characterize(schedule_of("1f1b"), whole, {})).all_max();
  EXPECT_EQ(plan.instructions[0].size(), 2 * kMicroBatches);
  const Profile recomputes = test_profile(kStages, 1, true);
  std::vector<InstructionProfile> entries(recomputes.entries().begin(), recomputes.entries().end());
  std::erase_if(entries,
                [](const auto& e) { return e.kind == InstructionKind::kRecomputeBackward; });
  const Schedule schedule = schedule_of("recompute-1f1b");
  const Profile fused = with_rows_of_wholes(schedule, recomputes.with_entries(entries));
  EXPECT_THAT(fused.points(1, 0, InstructionKind::kRecomputeBackward), testing::SizeIs(4));
  EXPECT_EQ(must(characterize(schedule, fused, {})).all_max().instructions[0].size(),
            2 * kMicroBatches);
}

TEST(EqualWork, ProfilesThatFitStayAsTheyAre) {
  EXPECT_EQ(note_on_chunks(profile_of(false, 2), 2), std::nullopt);
  EXPECT_EQ(note_on_chunks(profile_of(false, 1), 1), std::nullopt);
  EXPECT_EQ(note_on_chunks(profile_of(false, 1), 2, 2), std::nullopt) << "two whole models";
  EXPECT_THAT(*note_on_chunks(profile_of(false, 1), 2), HasSubstr("no column 'chunk'"));
  EXPECT_THAT(*note_on_chunks(profile_of(false, 2), 1), HasSubstr("counts as their sum"));
  EXPECT_TRUE(with_chunks(profile_of(false, 1), 2).is_synthetic());
}

}  // namespace
}  // namespace harpe::plan
