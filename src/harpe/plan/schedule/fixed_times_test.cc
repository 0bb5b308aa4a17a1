#include "harpe/plan/schedule/fixed_times.h"

#include <gmock/gmock.h>

#include "harpe/plan/schedule/schedule_testing.h"

namespace harpe::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = InstructionKind;

std::vector<Kind> kinds(const std::vector<Instruction>& list) {
  std::vector<Kind> kinds;
  for (const Instruction& instruction : list) kinds.push_back(instruction.kind);
  return kinds;
}

TEST(FixedTimes, StandAheadOfForwardsAndAtTheEnd) {
  const Schedule schedule =
      must(with_fixed_times(must(one_f_one_b({.stages = 2, .micro_batches = 2})),
                            {.load = {Seconds{0.1}, Seconds{0}},
                             .reduce = {Seconds{0.2}, Seconds{0.2}},
                             .optimizer = {Seconds{0}, Seconds{0.3}}}));
  EXPECT_THAT(kinds(schedule.lists[0]),
              ElementsAre(Kind::kLoad, Kind::kForward, Kind::kLoad, Kind::kForward, Kind::kBackward,
                          Kind::kBackward, Kind::kReduce));
  EXPECT_THAT(kinds(schedule.lists[1]),
              ElementsAre(Kind::kForward, Kind::kBackward, Kind::kForward, Kind::kBackward,
                          Kind::kReduce, Kind::kOptimizer));
  EXPECT_EQ(schedule.lists[0][2].micro_batch, 1);
  EXPECT_TRUE(validate(schedule).ok());
}

TEST(FixedTimes, NoneChangeNothing) {
  const Schedule schedule = must(one_f_one_b({.stages = 2, .micro_batches = 2}));
  EXPECT_EQ(must(with_fixed_times(schedule, {})).lists, schedule.lists);
  EXPECT_TRUE(FixedTimes{}.none());
}

TEST(FixedTimes, EveryErrorIsNamed) {
  const Schedule schedule = must(one_f_one_b({.stages = 2, .micro_batches = 2}));
  const auto wrong = with_fixed_times(
      schedule, {.load = {Seconds{1}}, .reduce = {Seconds{-1}, Seconds{1}}, .optimizer = {}});
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().text(), HasSubstr("load has 1 times, the schedule 2 stages"));
  EXPECT_THAT(wrong.error().text(), HasSubstr("reduce: a time is at least 0 s"));
  const FixedTimes reduce{.load = {}, .reduce = {Seconds{1}, Seconds{0}}, .optimizer = {}};
  const auto twice = with_fixed_times(must(with_fixed_times(schedule, reduce)), reduce);
  ASSERT_FALSE(twice.ok());
  EXPECT_THAT(twice.error().text(),
              HasSubstr("reduce: the schedule of stage 0 already has such instructions"));
}

}  // namespace
}  // namespace harpe::plan
