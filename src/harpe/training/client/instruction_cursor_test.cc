// The position of training in the list of its stage, also after training leaves the list.

#include "harpe/training/client/instruction_cursor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace harpe::training {
namespace {

struct Announced {
  InstructionKind kind;
  int chunk, micro_batch, position;
};

std::vector<Announced> computations(const Schedule& schedule, int stage) {
  std::vector<Announced> all;
  const auto& list = schedule.lists[static_cast<std::size_t>(stage)];
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (is_fixed_time(list[i].kind)) continue;
    all.push_back(
        {list[i].kind, schedule.chunk(list[i].part), list[i].micro_batch, static_cast<int>(i)});
  }
  return all;
}

TEST(InstructionCursor, FollowsEveryGeneratedScheduleToItsEnd) {
  for (const ScheduleGenerator& generator : schedule_generators()) {
    const auto schedule = generator.make({.stages = 4, .micro_batches = 8});
    ASSERT_TRUE(schedule.ok()) << generator.name;
    for (int stage = 0; stage < 4; ++stage) {
      auto cursor = InstructionCursor::make(*schedule, stage);
      ASSERT_TRUE(cursor.ok());
      for (int repeat = 0; repeat < 2; ++repeat) {
        cursor->restart();
        for (const Announced& one : computations(*schedule, stage)) {
          EXPECT_EQ(cursor->next(), one.position);
          // Alternately with and without the micro-batch number.
          const auto taken = cursor->take(one.kind, one.chunk, repeat == 0 ? one.micro_batch : -1);
          EXPECT_EQ(taken.position, one.position) << generator.name;
          EXPECT_TRUE(taken.expected);
        }
        EXPECT_EQ(cursor->next(), -1);
      }
    }
  }
}

TEST(InstructionCursor, FindsItsPlaceAgainWhateverIsLeftOutOrRepeated) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto schedule = interleaved_one_f_one_b({.stages = 2, .micro_batches = 6, .chunks = 3});
  ASSERT_TRUE(schedule.ok());
  const std::vector<Announced> list = computations(*schedule, 1);
  auto cursor = InstructionCursor::make(*schedule, 1);
  ASSERT_TRUE(cursor.ok());
  for (int round = 0; round < 2000; ++round) {
    const std::size_t at = std::uniform_int_distribution<std::size_t>(0, list.size() - 1)(random);
    const Announced& one = list[at];
    const bool is_next = cursor->next() == one.position;
    const auto taken = cursor->take(one.kind, one.chunk, one.micro_batch);
    ASSERT_EQ(taken.position, one.position) << "its own entry, wherever training was";
    ASSERT_EQ(taken.expected, is_next);
    ASSERT_EQ(cursor->next(), at + 1 < list.size() ? list[at + 1].position : -1);
  }
}

TEST(InstructionCursor, WhatTheListDoesNotHaveMovesNothing) {
  const auto schedule = one_f_one_b({.stages = 2, .micro_batches = 4});
  auto cursor = InstructionCursor::make(*schedule, 0);
  ASSERT_TRUE(cursor.ok());
  const int next = cursor->next();
  for (const auto& [kind, chunk, micro_batch] : std::vector<std::tuple<InstructionKind, int, int>>{
           {InstructionKind::kWeight, 0, 0},
           {InstructionKind::kForward, 1, 0},
           {InstructionKind::kForward, -1, 0},
           {InstructionKind::kForward, 0, 4},
           {InstructionKind::kForward, 0, 2'000'000'000},
           {InstructionKind::kWeight, 0, -1},
           {static_cast<InstructionKind>(200), 0, 0}}) {
    EXPECT_EQ(cursor->take(kind, chunk, micro_batch).position, -1);
    EXPECT_EQ(cursor->next(), next);
  }
}

TEST(InstructionCursor, RefusesAStageThatIsNotThere) {
  const auto schedule = one_f_one_b({.stages = 2, .micro_batches = 4});
  EXPECT_FALSE(InstructionCursor::make(*schedule, 2).ok());
  EXPECT_FALSE(InstructionCursor::make(*schedule, -1).ok());
  Schedule idle = *schedule;
  idle.lists[1].clear();
  EXPECT_FALSE(InstructionCursor::make(idle, 1).ok());
}

}  // namespace
}  // namespace harpe::training
