// Jobs that are only observed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "harpe/training/job/played_job_testing.h"

namespace harpe::training {
namespace {

using ::testing::HasSubstr;

JobSpec observed_spec(int data = 2) {
  JobSpec spec = small_spec(data);
  spec.observe = true;
  return spec;
}

/// Training on GPUs with this name.
struct Observed : Played {
  explicit Observed(const JobSpec& spec, const EmulatedMachines::Options& options = {},
                    const std::string& gpu = "NVIDIA A100-SXM4-80GB")
      : Played(spec, options) {
    training.change_registration = [gpu](RankRegistration& rank) { rank.gpu = gpu; };
    EXPECT_TRUE(training.register_all(job).ok());
  }
  bool has_assignments() const {
    for (int data = 0; data < job.spec().shape.data; ++data)
      for (int stage = 0; stage < job.spec().shape.stages; ++stage)
        if (!job.assignments(data, stage).empty()) return true;
    return false;
  }
};

TEST(JobObserving, SetsNothingAndDividesIterationsIntoWorkAndWaiting) {
  Observed played(observed_spec(), {.noise = 0});
  const Profile truth = truth_of(played.job.spec());
  for (int i = 0; i < 100; ++i) {
    played.training.run(played.job, 1);
    ASSERT_EQ(played.job.phase(), JobPhase::kObserving);
    ASSERT_FALSE(played.has_assignments());
    ASSERT_EQ(played.job.version(), 0u);
    ASSERT_EQ(played.job.plans(), nullptr);
  }
  const JobStatus status = played.job.status();
  ASSERT_TRUE(status.observed);
  EXPECT_EQ(status.ranks_not_set, 0);
  EXPECT_GT(status.observed->iterations, 90);
  EXPECT_NEAR(status.observed->iteration_time / played.training.last().time, 1, 1e-6);
  EXPECT_EQ(status.observed->longest, 3) << "a synthetic profile's last stage is the longest";
  for (int stage = 0; stage < 4; ++stage) {
    Seconds work{0};
    for (const InstructionKind kind : {InstructionKind::kForward, InstructionKind::kBackward})
      work += all_max_point(truth.points(stage, 0, kind)).time * 6;
    const ObservedStage& one = status.observed->stages[static_cast<std::size_t>(stage)];
    EXPECT_NEAR(one.work / work, 1, 1e-5) << stage;
    EXPECT_NEAR((one.work + one.waiting) / status.observed->iteration_time, 1, 1e-9) << stage;
    ASSERT_TRUE(one.waiting_power) << stage;
    EXPECT_NEAR(one.waiting_power->value, EmulatedMachines::Options().blocking_power.value, 1)
        << stage;
  }
}

TEST(JobObserving, EstimatesARangeThatHoldsWhatAPlanSaves) {
  Played planned(small_spec(), {.noise = 0});
  ASSERT_TRUE(planned.training.register_all(planned.job).ok());
  ASSERT_TRUE(planned.running());
  planned.settle();
  const auto& last = planned.training.last();
  const double saving = 1 - last.energy / last.all_max_energy;
  ASSERT_GT(saving, 0.02);

  Observed played(observed_spec(), {.noise = 0.01});
  played.training.run(played.job, 40);
  const EstimatedSaving estimate = played.job.status().observed->saving;
  ASSERT_TRUE(estimate.least && estimate.most) << estimate.basis;
  EXPECT_LT(*estimate.least, saving);
  EXPECT_GT(*estimate.most, saving);
  EXPECT_GT(*estimate.least, 0);
  EXPECT_LT(*estimate.most, 3 * saving);
  EXPECT_EQ(estimate.basis, "model of a100-sxm");
  EXPECT_FALSE(played.has_assignments());
}

TEST(JobObserving, WithoutAModelOfTheGpuThereIsNoFigure) {
  Observed played(observed_spec(), {}, "NVIDIA H100 NVL");
  played.training.run(played.job, 40);
  const EstimatedSaving estimate = played.job.status().observed->saving;
  EXPECT_FALSE(estimate.least || estimate.most);
  EXPECT_EQ(estimate.basis, "there is no model of 'NVIDIA H100 NVL'");
}

class SlowGpus : public ::testing::TestWithParam<int> {};
TEST_P(SlowGpus, AreNamed) {
  Observed played(observed_spec(GetParam()), {.noise = 0.01});
  played.training.run(played.job, 40);
  EXPECT_TRUE(played.job.status().slow_workers.empty());
  played.training.slow[{1, 2}] = 1.2;
  played.training.run(played.job, 40);
  const JobStatus status = played.job.status();
  ASSERT_EQ(status.slow_workers.size(), 1u);
  EXPECT_EQ(status.slow_workers[0].pipeline, 1);
  EXPECT_EQ(status.slow_workers[0].stage, 2);
  EXPECT_NEAR(status.slow_workers[0].factor, 1.2, 0.02);
  EXPECT_FALSE(played.has_assignments());
}
INSTANTIATE_TEST_SUITE_P(Pipelines, SlowGpus, ::testing::Values(2, 3, 8));

TEST(JobObserving, GpusNeedNoClocks) {
  const auto without_clocks = [](RankRegistration& rank) { rank.clocks.clear(); };
  Played setting(small_spec());
  setting.training.change_registration = without_clocks;
  EXPECT_THAT(setting.training.register_all(setting.job).error().text(), HasSubstr("no clocks"));
  Played played(observed_spec());
  played.training.change_registration = without_clocks;
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  played.training.run(played.job, 20);
  EXPECT_GT(played.job.status().observed->iterations, 10);
}

TEST(JobObserving, OtherGpusTakingOverChangeNothing) {
  Observed played(observed_spec());
  played.training.run(played.job, 20);
  RankRegistration rank = played.training.registration({0, 1, 0});
  rank.clocks = {{1000}};
  ASSERT_TRUE(played.job.register_rank(rank, played.training.now()).ok());
  played.training.run(played.job, 20);
  EXPECT_EQ(played.job.phase(), JobPhase::kObserving);
  EXPECT_FALSE(played.has_assignments());
}

TEST(JobObserving, WhatWouldBeSetIsRefused) {
  Observed played(observed_spec());
  played.training.run(played.job, 5);
  const Seconds now = played.training.now();
  const std::string why = "only observed";
  EXPECT_THAT(played.job.set_objective({Objective::Kind::kSlowdown, 0.1}, now).error().text(),
              HasSubstr(why));
  EXPECT_THAT(played.job.set_straggler({.pipeline = 1, .factor = 1.2}, now).error().text(),
              HasSubstr(why));
  EXPECT_THAT(played.job.set_pace(Pace{.pause = true}, now).error().text(), HasSubstr(why));
  EXPECT_TRUE(played.job.set_pace(std::nullopt, now).ok());
  played.training.run(played.job, 5);
  EXPECT_FALSE(played.has_assignments());
}

TEST(JobObserving, SomeRanksThatDoNotAreRefused) {
  for (const bool first_observes : {true, false}) {
    SCOPED_TRACE(first_observes);
    JobSpec first = small_spec(), second = small_spec();
    first.observe = first_observes;
    second.observe = !first_observes;
    Played played(first);
    const Seconds now = played.training.now();
    const auto rank = [&](RankCoordinates at, const std::string& specification) {
      RankRegistration one = played.training.registration(at);
      one.specification = specification;
      return one;
    };
    const std::string known = played.job.specification();
    ASSERT_TRUE(played.job.register_rank(rank({0, 0, 0}, known), now).ok());
    Job other = *Job::create(second, now);
    const std::string wanted = other.specification();
    EXPECT_EQ(played.job.propose(std::move(other), now), Job::Proposed::kGathers);
    // Also if they outnumber the ranks that came first.
    for (int stage = 1; stage < 4; ++stage) {
      const auto entry = played.job.register_rank(rank({0, stage, 0}, wanted), now);
      ASSERT_FALSE(entry.ok());
      EXPECT_EQ(entry.error().code, ErrorCode::kInvalidInput) << "its rank says so at once";
      EXPECT_THAT(entry.error().text(), HasSubstr("HARPE_OBSERVE=1, or observe=True, to all"));
    }
    EXPECT_EQ(played.job.spec().observe, first_observes);
    EXPECT_EQ(played.job.status().refused.size(), 3u);
  }
}

TEST(JobObserving, IsThereAgainWhenTheServerIs) {
  Observed played(observed_spec(), {.noise = 0.01});
  played.training.run(played.job, 60);
  const ObservedJob before = *played.job.status().observed;
  ASSERT_TRUE(before.saving.most);
  const Job looked_at = *Job::read(played.job.texts(), {}, played.training.now());
  EXPECT_EQ(looked_at.status().observed->saving, before.saving) << "before it goes on";
  ASSERT_TRUE(played.restart_server().ok());
  const ObservedJob after = *played.job.status().observed;
  EXPECT_EQ(after.iterations, before.iterations);
  EXPECT_EQ(after.iteration_time, before.iteration_time);
  EXPECT_EQ(after.stages[2].work, before.stages[2].work);
  EXPECT_EQ(after.stages[2].waiting_power, before.stages[2].waiting_power);
  EXPECT_EQ(after.saving, before.saving);
  played.training.run(played.job, 30);
  EXPECT_EQ(played.job.phase(), JobPhase::kObserving);
  EXPECT_GT(played.job.status().observed->iterations, before.iterations);
  EXPECT_FALSE(played.has_assignments());
}

/// Restarts training with another specification.
void start_again_with(Played& played, const JobSpec& spec, const std::string& run) {
  const Seconds now = played.training.now();
  Job next = *Job::create(spec, now);
  const std::string specification = next.specification();
  (void)played.job.propose(std::move(next), now);
  played.training.start_again(run, 0);
  played.training.change_registration = [specification](RankRegistration& rank) {
    rank.specification = specification;
    rank.gpu = "NVIDIA A100-SXM4-80GB";
  };
  // The first ranks only gather, so all register again.
  for (int again = 0; again < 2; ++again)
    ASSERT_TRUE(played.training.register_all(played.job).ok());
}

TEST(JobObserving, AProfileIsKeptForTrainingThatIsNotOnlyObserved) {
  Played played(small_spec());
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  start_again_with(played, observed_spec(), "second");
  played.training.run(played.job, 60);
  EXPECT_EQ(played.job.phase(), JobPhase::kObserving);
  EXPECT_TRUE(played.job.assignments(0, 0).empty());
  EXPECT_EQ(played.job.search_ticket(), 0u);
  ASSERT_TRUE(played.restart_server().ok());
  played.training.run(played.job, 20);
  EXPECT_EQ(played.job.phase(), JobPhase::kObserving);
  EXPECT_TRUE(played.job.status().observed->saving.most);
  const int profiled = played.events("profiling all stages");
  start_again_with(played, small_spec(), "third");
  EXPECT_TRUE(played.running());
  EXPECT_EQ(played.events("profiling all stages"), profiled) << "it is not measured anew";
}

}  // namespace
}  // namespace harpe::training
