#include "harpe/training/job/iteration_collector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

namespace harpe::training {
namespace {

constexpr JobShape kShape{.data = 3, .stages = 2, .tensor = 2};

struct Collected {
  Schedule schedule = *one_f_one_b({.stages = 2, .micro_batches = 4});
  plan::ScheduleWork work{schedule};
  IterationCollector collector{kShape, work};
};

IterationReport report_of(int rank, std::int64_t iteration) {
  IterationReport report;
  report.coordinates = {rank / 4, rank / 2 % 2, rank % 2};
  report.iteration = iteration;
  report.version = 1;
  report.time = Seconds{1 + 0.001 * rank};
  report.energy = Joules{100.0 + rank};
  report.instructions = {{.kind = InstructionKind::kForward,
                          .count = 4,
                          .time = Seconds{0.4 + 0.004 * rank},
                          .energy = Joules{40},
                          .energy_error = Joules{4}}};
  return report;
}

TEST(IterationCollector, LongestTimeAndSumOfEnergiesOfAStagesShards) {
  Collected c;
  for (int rank = 0; rank < kShape.ranks(); ++rank)
    ASSERT_TRUE(c.collector.add(report_of(rank, 0)).ok());
  const auto finished = c.collector.take_finished();
  ASSERT_EQ(finished.size(), 1U);
  for (int pipeline = 0; pipeline < 3; ++pipeline)
    for (int stage = 0; stage < 2; ++stage) {
      const int slower = pipeline * 4 + stage * 2 + 1;
      const GroupIteration& group = finished[0].groups[kShape.group(pipeline, stage)];
      EXPECT_EQ(group.ranks, 2);
      EXPECT_DOUBLE_EQ(group.time.value, 1 + 0.001 * slower);
      EXPECT_DOUBLE_EQ(group.energy.value, 200.0 + 2 * slower - 1);
      const std::size_t forward = finished[0].item(
          pipeline, c.work.first(stage) + *c.work.find(stage, InstructionKind::kForward, 0));
      EXPECT_FLOAT_EQ(finished[0].item_time[forward], static_cast<float>(0.1 + 0.001 * slower));
      EXPECT_FLOAT_EQ(finished[0].item_energy[forward], 20);
      EXPECT_FLOAT_EQ(finished[0].item_error[forward], std::sqrt(2.0F));
    }
}

/// Ranks in any order, at most one iteration apart; some reports are lost, some come twice.
TEST(IterationCollector, FinishesEveryIterationOnceAndInOrder) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Collected c;
    const double loss = std::uniform_real_distribution<double>(0, 0.4)(random);
    const std::int64_t start = static_cast<std::int64_t>(random() % 1000);
    std::map<std::int64_t, int> sent;
    std::vector<FinishedIteration> finished;
    const std::int64_t iterations = 60;
    for (std::int64_t i = start; i < start + iterations; ++i) {
      std::vector<int> ranks(static_cast<std::size_t>(kShape.ranks()));
      for (int rank = 0; rank < kShape.ranks(); ++rank) ranks[rank] = rank;
      std::ranges::shuffle(ranks, random);
      for (const int rank : ranks) {
        if (std::uniform_real_distribution<double>(0, 1)(random) < loss) continue;
        const bool twice = random() % 4 == 0;
        const auto added = c.collector.add(report_of(rank, i));
        ASSERT_TRUE(added.ok());
        sent[i] += added->used;
        if (twice) {
          EXPECT_FALSE(c.collector.add(report_of(rank, i))->used);
        }
      }
      for (auto& one : c.collector.take_finished()) finished.push_back(std::move(one));
    }
    for (std::size_t k = 1; k < finished.size(); ++k)
      EXPECT_LT(finished[k - 1].iteration, finished[k].iteration);
    for (const FinishedIteration& one : finished) {
      int ranks = 0;
      for (const GroupIteration& group : one.groups) ranks += group.ranks;
      EXPECT_EQ(ranks, sent[one.iteration]) << one.iteration;
    }
    EXPECT_GE(finished.size(), static_cast<std::size_t>(iterations) - 3);
  }
}

TEST(IterationCollector, FollowsTheMajorityAndNobodyElse) {
  Collected c;
  ASSERT_TRUE(c.collector.add(report_of(0, 1'000'000)).ok());
  EXPECT_EQ(c.collector.newest(), 1'000'000);
  bool moved = false;
  for (int rank = 1; rank < kShape.ranks(); ++rank) {
    const auto added = c.collector.add(report_of(rank, 5));
    ASSERT_TRUE(added.ok());
    moved = moved || added->moved;
    EXPECT_EQ(moved, rank >= 7) << "more than half of 12";
  }
  EXPECT_EQ(c.collector.newest(), 5);
}

TEST(IterationCollector, TellsLostReportsFromAnotherStart) {
  for (const std::int64_t reached : {std::int64_t{-1}, std::int64_t{39}, std::int64_t{40}}) {
    SCOPED_TRACE(reached);
    Collected c;
    for (int rank = 0; rank < kShape.ranks(); ++rank) {
      IterationReport report = report_of(rank, 10);
      report.reached = reached;
      ASSERT_TRUE(c.collector.add(report).ok());
    }
    EXPECT_EQ(c.collector.reached(), std::max(std::int64_t{11}, reached));
    bool moved = false;
    for (int rank = 0; rank < kShape.ranks(); ++rank) {
      const auto added = c.collector.add(report_of(rank, 40));
      ASSERT_TRUE(added.ok());
      moved = moved || added->moved;
    }
    EXPECT_EQ(moved, reached < 40);
    EXPECT_EQ(c.collector.newest(), 40);
    EXPECT_EQ(c.collector.reached(), 41);
  }
}

TEST(IterationCollector, UnknownEnergiesStayUnknown) {
  Collected c;
  for (int rank = 0; rank < kShape.ranks(); ++rank) {
    IterationReport report = report_of(rank, 0);
    if (rank == 5) report.instructions[0].energy.value = report.energy.value = std::nan("");
    ASSERT_TRUE(c.collector.add(report).ok());
  }
  const auto finished = c.collector.take_finished();
  EXPECT_TRUE(std::isnan(finished[0].groups[kShape.group(1, 0)].energy.value));
  EXPECT_TRUE(std::isnan(finished[0].item_energy[finished[0].item(1, c.work.first(0))]));
  EXPECT_FALSE(std::isnan(finished[0].groups[kShape.group(1, 1)].energy.value));
}

}  // namespace
}  // namespace harpe::training
