#include "harpe/lab/replay/concurrent_recurrences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "harpe/base/hashed_random.h"
#include "harpe/lab/replay/recurrences.h"

namespace harpe::lab {
namespace {

using ::testing::ElementsAre;

constexpr BatchSizeWay kWays[] = {BatchSizeWay::kDefault, BatchSizeWay::kZeus,
                                  BatchSizeWay::kHarpe};

/// Returns a job with three batch sizes under two limits. The smallest size is the cheapest; the
/// largest sometimes fails.
TracedJob job_of(int recurrences) {
  TracedJob traced;
  traced.dataset = "invented";
  zeus::RecurringJob& job = traced.job;
  job.id = job.id_prefix = "invented";
  job.batch_sizes = {16, 32, 64};
  job.default_batch_size = 32;
  job.max_epochs = 40;
  job.max_power = Watts{200};
  job.gpus = 1;
  job.gpu_model = "A40";
  job.recurrences = recurrences;
  const auto size_of = [](int batch_size, std::vector<std::optional<int>> runs, double seconds) {
    TracedSize size{.batch_size = batch_size, .runs = std::move(runs), .limits = {}, .best = 0};
    size.limits = {{100, Seconds{1.2 * seconds}, Joules{95 * seconds}},
                   {200, Seconds{seconds}, Joules{150 * seconds}}};
    return size;
  };
  traced.sizes = {size_of(16, {9, 10, 11, 10}, 10), size_of(32, {14, 15, 16, 15}, 9.5),
                  size_of(64, {25, std::nullopt, 30, std::nullopt}, 9)};
  traced.first = 1;
  return traced;
}

/// Returns jobs of `length` seconds each that are submitted every `gap` seconds.
JobGroup group_of(int jobs, double gap, double length, double ratio = 1) {
  JobGroup group{.name = "group", .dataset = "invented", .jobs = {}};
  for (int i = 0; i < jobs; ++i) {
    group.jobs.push_back({Seconds{i * gap}, Seconds{i * gap + length}, ratio});
  }
  return group;
}

Recurrences in_sequence(const TracedJob& job, BatchSizeWay way, std::uint64_t seed) {
  switch (way) {
    case BatchSizeWay::kDefault:
      return recur_by_default(job, seed);
    case BatchSizeWay::kZeus:
      return recur_by_zeus(job, seed).value();
    case BatchSizeWay::kHarpe:
      return recur_by_harpe(job, seed).value();
  }
  return {};
}

TEST(ConcurrentRecurrences, OneAtATimeAreThoseInSequence) {
  constexpr int kJobs = 60;
  const TracedJob job = job_of(kJobs);
  // A retry lasts as long as its job: even twenty retries end before the next job.
  const JobGroup group = group_of(kJobs, 3000, 100);
  for (const BatchSizeWay way : kWays) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(testing::Message() << "way " << static_cast<int>(way) << ", seed " << seed);
      const Recurrences sequence = in_sequence(job, way, seed);
      const auto found = recur_concurrently(job, group, way, seed);
      ASSERT_TRUE(found.ok()) << found.error().text();
      std::vector<double> costs(kJobs), expected;
      std::vector<int> sizes(kJobs), expected_sizes;
      for (const ConcurrentRun& run : found->runs) {
        EXPECT_FALSE(run.concurrent);
        costs[run.job] += run.cost;
        sizes[run.job] = run.batch_size;
      }
      for (const Recurrence& one : sequence) {
        expected.push_back(one.cost);
        expected_sizes.push_back(one.batch_size);
      }
      EXPECT_EQ(sizes, expected_sizes);
      for (std::size_t i = 0; i < costs.size(); ++i) {
        EXPECT_NEAR(costs[i], expected[i], 1e-9 * expected[i]) << i;
      }
    }
  }
}

TEST(ConcurrentRecurrences, NoSubmissionWaits) {
  constexpr int kJobs = 80;
  const TracedJob job = job_of(kJobs);
  for (const BatchSizeWay way : kWays) {
    for (const double gap : {0.0, 1.0, 10.0, 70.0}) {
      SCOPED_TRACE(testing::Message() << "way " << static_cast<int>(way) << ", gap " << gap);
      const JobGroup group = group_of(kJobs, gap, 100);
      const auto found = recur_concurrently(job, group, way, 5);
      ASSERT_TRUE(found.ok()) << found.error().text();
      EXPECT_EQ(found->converged(), static_cast<std::size_t>(kJobs));
      std::map<std::size_t, std::vector<const ConcurrentRun*>> by_job;
      for (const ConcurrentRun& run : found->runs) by_job[run.job].push_back(&run);
      ASSERT_EQ(by_job.size(), static_cast<std::size_t>(kJobs));
      for (const auto& [number, runs] : by_job) {
        // The first run begins at the submission, a retry at the end of the run before.
        EXPECT_EQ(runs.front()->start, group.jobs[number].start);
        for (std::size_t i = 1; i < runs.size(); ++i) {
          EXPECT_FALSE(runs[i - 1]->reached);
          EXPECT_EQ(runs[i]->start, runs[i - 1]->end);
        }
        EXPECT_TRUE(runs.back()->reached);
      }
    }
  }
}

TEST(ConcurrentRecurrences, AreObservedInTheOrderOfTheirEnds) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    JobGroup group{.name = "group", .dataset = "invented", .jobs = {}};
    double now = 0;
    for (std::uint64_t i = 0; i < 50; ++i) {
      now += std::floor(60 * uniform(mixed(seed, 1, i)));
      const double length = std::floor(200 * uniform(mixed(seed, 2, i)));
      group.jobs.push_back({Seconds{now}, Seconds{now + length}, 1});
    }
    for (const BatchSizeWay way : kWays) {
      const auto found = recur_concurrently(job_of(50), group, way, seed);
      ASSERT_TRUE(found.ok()) << found.error().text();
      EXPECT_TRUE(std::ranges::is_sorted(found->runs, {}, &ConcurrentRun::end));
      EXPECT_GE(found->runs.size(), 50U);
    }
  }
}

TEST(ConcurrentRecurrences, AsZeusOthersGetTheCheapestWhileOneIsInFlight) {
  // The first job explores the default size until 100. The job at 50 gets the same size, as no
  // result is known yet. The third, which is alone, explores the next size.
  JobGroup group{.name = "group", .dataset = "invented", .jobs = {}};
  for (const double start : {0.0, 50.0, 200.0, 210.0, 220.0, 400.0}) {
    group.jobs.push_back({Seconds{start}, Seconds{start + 100}, 1});
  }
  TracedJob job = job_of(6);
  job.sizes[2].runs = {18};  // converges within the bound
  const auto found = recur_concurrently(job, group, BatchSizeWay::kZeus, 1);
  ASSERT_TRUE(found.ok()) << found.error().text();
  ASSERT_EQ(found->runs.size(), 6U);
  std::vector<int> sizes;
  std::vector<bool> concurrent;
  for (const ConcurrentRun& run : found->runs) {
    sizes.push_back(run.batch_size);
    concurrent.push_back(run.concurrent);
  }
  EXPECT_THAT(concurrent, ElementsAre(false, true, false, true, true, false));
  EXPECT_THAT(sizes, ElementsAre(32, 32, 16, 32, 32, 64));
}

TEST(ConcurrentRecurrences, CostsAreScaledByTheRuntimeRatioAndChoicesAreNot) {
  const TracedJob job = job_of(40);
  for (const BatchSizeWay way : kWays) {
    const auto once = recur_concurrently(job, group_of(40, 60, 100, 1), way, 3);
    const auto twice = recur_concurrently(job, group_of(40, 60, 100, 2), way, 3);
    ASSERT_TRUE(once.ok() && twice.ok());
    EXPECT_NEAR(twice->cost, 2 * once->cost, 1e-9 * twice->cost);
    ASSERT_EQ(once->runs.size(), twice->runs.size());
    for (std::size_t i = 0; i < once->runs.size(); ++i) {
      EXPECT_EQ(once->runs[i].batch_size, twice->runs[i].batch_size);
    }
  }
  EXPECT_NEAR(oracle_cost(job, group_of(40, 60, 100, 2)), 80 * job.oracle_cost(), 1e-6);
}

TEST(ConcurrentRecurrences, WhatNeverConvergesIsGivenUpAfterTwentyTries) {
  TracedJob job = job_of(5);
  for (TracedSize& size : job.sizes) size.runs = {std::nullopt};
  for (const BatchSizeWay way : {BatchSizeWay::kZeus, BatchSizeWay::kHarpe}) {
    const auto found = recur_concurrently(job, group_of(5, 10, 100), way, 1);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().code, ErrorCode::kInfeasible);
  }
}

}  // namespace
}  // namespace harpe::lab
