// Another specification under a job's id: data of the previous one that remain valid are kept.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "harpe/training/job/played_job_testing.h"

namespace harpe::training {
namespace {

using ::testing::HasSubstr;

/// A job that runs its plan.
struct PlannedLife : Played {
  explicit PlannedLife(const JobSpec& spec = small_spec()) : Played(spec) {
    job = *Job::create(spec, training.now(), "life");
    EXPECT_TRUE(training.register_all(job).ok());
    EXPECT_TRUE(running());
    settle();
  }

  Job::Proposed propose(const JobSpec& spec, double later = 0) {
    return job.propose(*Job::create(spec, training.now()), training.now() + Seconds{later});
  }
};

/// Training with another specification, whose ranks take over the job.
class Next {
 public:
  Next(PlannedLife& before, const JobSpec& spec)
      : job(before.job), training(spec, truth_of(spec), {}), spec_(spec) {
    training.start_again("next", 0);
    training.run_for(before.training.now() - training.now());
  }
  Result<RankEntry> enter(RankCoordinates coordinates) {
    RankRegistration rank = training.registration(coordinates);
    rank.specification = Job::create(spec_, Seconds{1})->specification();
    return job.register_rank(rank, training.now());
  }
  void enter_all() {
    for (const RankCoordinates coordinates : training.places())
      EXPECT_TRUE(enter(coordinates).ok());
    training.take_effects_of(job);
  }

  bool said(const std::string& words) {
    training.take_effects_of(job);
    return std::ranges::any_of(training.events, [&](const JobEvent& one) {
      return one.text.find(words) != std::string::npos;
    });
  }

  Job& job;
  PlayedTraining training;

 private:
  JobSpec spec_;
};

std::size_t profiled_stages(const Job& job) {
  std::set<int> stages;
  const Profile profile = job.profile();
  for (const InstructionProfile& entry : profile.entries())
    if (!entry.points.empty()) stages.insert(entry.stage);
  return stages.size();
}

TEST(Succession, TheSameAgainIsTheSame) {
  PlannedLife planned;
  const std::string life = planned.job.incarnation();
  EXPECT_EQ(planned.propose(small_spec()), Job::Proposed::kSame);
  EXPECT_EQ(planned.job.incarnation(), life);
}

TEST(Succession, AnotherSpecificationWaitsForMoreThanHalfOfItsRanks) {
  PlannedLife planned;
  const JobSpec spec = small_spec(3);
  EXPECT_EQ(planned.propose(spec), Job::Proposed::kGathers);
  Next next(planned, spec);
  int gathering = 0;
  for (const RankCoordinates coordinates : next.training.places()) {
    const bool waits = next.enter(coordinates)->gathers;
    gathering += waits;
    EXPECT_EQ(planned.job.spec().shape.data, waits ? 2 : 3);
  }
  EXPECT_EQ(gathering, 6);  // of 12
  EXPECT_EQ(planned.job.incarnation(), "life.2");
}

TEST(Succession, IsAtOnceWhereNoRankIsHeardOfAnyMore) {
  PlannedLife planned;
  EXPECT_EQ(planned.propose(small_spec(3), Job::kSilence.value + 1), Job::Proposed::kTaken);
  EXPECT_EQ(planned.job.spec().shape.data, 3);
  Job empty = *Job::create(small_spec(), Seconds{1}, "life");
  EXPECT_EQ(empty.propose(*Job::create(small_spec(3), Seconds{1}), Seconds{2}),
            Job::Proposed::kTaken)
      << "no rank has ever come";
}

TEST(Succession, WhatWasNotProposedIsAskedForFirst) {
  PlannedLife planned;
  Next next(planned, small_spec(3));
  const auto entered = next.enter({0, 0, 0});
  ASSERT_FALSE(entered.ok());
  EXPECT_EQ(entered.error().code, ErrorCode::kNotFound);
}

TEST(Succession, RanksOfTheShapeBeforeDoNotTakeTheJobBack) {
  PlannedLife planned;
  std::vector<RankRegistration> old;
  for (const RankCoordinates coordinates : planned.training.places()) {
    old.push_back(planned.training.registration(coordinates));
    old.back().incarnation = planned.job.incarnation();
    old.back().specification = planned.job.specification();
    old.back().start = planned.job.register_rank(old.back(), planned.training.now())->start;
  }
  const JobSpec spec = small_spec(3);
  planned.propose(spec);
  Next next(planned, spec);
  next.enter_all();
  EXPECT_EQ(planned.propose(small_spec()), Job::Proposed::kGathers) << "they register it again";
  for (const RankRegistration& rank : old) {
    const auto entered = planned.job.register_rank(rank, next.training.now());
    ASSERT_FALSE(entered.ok());
    EXPECT_EQ(entered.error().code, ErrorCode::kConflict);
  }
  EXPECT_EQ(planned.job.spec().shape.data, 3);
}

TEST(Succession, OtherPipelinesKeepProfileAndPlans) {
  for (const int data : {1, 3}) {
    SCOPED_TRACE(data);
    PlannedLife planned;
    const std::string plans = planned.job.plans()->json();
    const Seconds time = planned.training.last().time;
    JobSpec spec = small_spec(data);
    planned.propose(spec);
    Next next(planned, spec);
    next.enter_all();
    EXPECT_EQ(planned.job.phase(), JobPhase::kRunning);
    ASSERT_NE(planned.job.plans(), nullptr);
    EXPECT_EQ(planned.job.plans()->json(), plans);
    EXPECT_TRUE(next.said("its profile and plans stay"));
    next.training.run(planned.job, 12);
    EXPECT_EQ(next.training.last().versions.front(), planned.job.version());
    EXPECT_NEAR(next.training.last().time.value, time.value, 1e-9);
    EXPECT_FALSE(planned.job.status().rolled_back_until);
  }
}

TEST(Succession, OtherMicroBatchesKeepTheProfileAndGetOtherPlans) {
  PlannedLife planned;
  const std::string profile = profile_csv(planned.job.profile());
  JobSpec spec = small_spec(2, 4, 9);
  planned.propose(spec);
  Next next(planned, spec);
  next.enter_all();
  EXPECT_EQ(planned.job.phase(), JobPhase::kCharacterizing);
  EXPECT_TRUE(next.said("new plans are computed"));
  EXPECT_EQ(profile_csv(planned.job.profile()), profile);
  EXPECT_TRUE(next.training.run_until(
      planned.job, [&] { return planned.job.phase() == JobPhase::kRunning; }, 20));
  next.training.run(planned.job, 8);
  EXPECT_EQ(planned.job.phase(), JobPhase::kRunning);
  EXPECT_LT(next.training.last().energy, next.training.iterations()[0].energy * 0.95);
}

TEST(Succession, AnotherScheduleOfTheSameInstructionsKeepsTheProfile) {
  PlannedLife planned;
  JobSpec spec = small_spec();
  spec.schedule = *gpipe({.stages = 4, .micro_batches = 6});
  planned.propose(spec);
  Next next(planned, spec);
  next.enter_all();
  EXPECT_EQ(planned.job.phase(), JobPhase::kCharacterizing);
}

TEST(Succession, OtherInstructionsAreMeasuredAnew) {
  PlannedLife planned;
  JobSpec spec = small_spec();
  spec.schedule = *zb_h1({.stages = 4, .micro_batches = 6});
  planned.propose(spec);
  Next next(planned, spec);
  for (const RankCoordinates coordinates : next.training.places())
    EXPECT_TRUE(next.enter(coordinates).ok());
  EXPECT_EQ(planned.job.phase(), JobPhase::kProfiling);
  EXPECT_EQ(profiled_stages(planned.job), 0U);
  EXPECT_EQ(planned.job.plans(), nullptr);
}

TEST(Succession, OtherStagesAreMeasuredAnew) {
  PlannedLife planned;
  const JobSpec spec = small_spec(2, 3);
  planned.propose(spec);
  Next next(planned, spec);
  for (const RankCoordinates coordinates : next.training.places())
    EXPECT_TRUE(next.enter(coordinates).ok());
  EXPECT_EQ(planned.job.phase(), JobPhase::kProfiling);
  EXPECT_EQ(profiled_stages(planned.job), 0U);
}

TEST(Succession, OnlyStagesWithOtherInstructionsAreMeasuredAnew) {
  PlannedLife planned;
  JobSpec spec = small_spec();
  // The last stage recomputes now.
  for (Instruction& one : spec.schedule.lists[3])
    if (one.kind == InstructionKind::kBackward) one.kind = InstructionKind::kRecomputeBackward;
  spec.schedule.name = "custom";
  ASSERT_TRUE(validate(spec).ok()) << validate(spec).error().text();
  planned.propose(spec);
  Next next(planned, spec);
  for (const RankCoordinates coordinates : next.training.places())
    EXPECT_TRUE(next.enter(coordinates).ok());
  EXPECT_EQ(planned.job.phase(), JobPhase::kProfiling);
  EXPECT_EQ(profiled_stages(planned.job), 3U);
}

TEST(Succession, WhatIsKeptSurvivesARestartOfTheServer) {
  for (const int micro_batches : {6, 9}) {
    SCOPED_TRACE(micro_batches);
    PlannedLife planned;
    const plan::PlanTable stored =
        *plan::PlanTable::parse(planned.job.plans()->stored_text(), "plans");
    JobTexts texts;
    const auto save = [&] {
      for (auto& [name, text] : planned.job.take_changed_parts()) texts.parts[name] = text;
      texts.state = planned.job.snapshot();
    };
    save();
    const JobSpec spec = small_spec(3, 4, micro_batches);
    planned.propose(spec);
    Next next(planned, spec);
    // More than half of the ranks register, then the server is killed. Its stored plans are old.
    for (int i = 0; i < 7; ++i) EXPECT_TRUE(next.enter(next.training.places()[i]).ok());
    save();
    auto restored = Job::read(texts, stored, next.training.now());
    ASSERT_TRUE(restored.ok()) << restored.error().text();
    restored->go_on(next.training.now());
    planned.job = std::move(*restored);
    EXPECT_EQ(planned.job.incarnation(), "life.2");
    next.enter_all();
    EXPECT_EQ(planned.job.phase(),
              micro_batches == 6 ? JobPhase::kRunning : JobPhase::kCharacterizing);
  }
}

TEST(Succession, WhatTheStoreHasOfTheRanksBeforeDoesNotSpoilTheNext) {
  PlannedLife planned;
  JobTexts texts;
  const auto save_and_read = [&](Seconds now) {
    for (auto& [name, text] : planned.job.take_changed_parts()) texts.parts[name] = text;
    texts.state = planned.job.snapshot();
    return Job::read(texts, {}, now);
  };
  const Seconds later = planned.training.now() + Job::kSilence + Seconds{1};
  ASSERT_TRUE(save_and_read(later).ok());
  // None of its ranks has registered yet.
  ASSERT_EQ(planned.propose(small_spec(3), Job::kSilence.value + 1), Job::Proposed::kTaken);
  const Result<Job> restored = save_and_read(later);
  ASSERT_TRUE(restored.ok()) << restored.error().text();
  EXPECT_EQ(restored->specification_text(), planned.job.specification_text());
  EXPECT_EQ(restored->status().ranks_registered, 0);
}

TEST(Succession, AnObjectiveThatPeopleChangedStaysUnlessTheSpecificationSaysAnother) {
  for (const bool says : {false, true}) {
    PlannedLife planned;
    ASSERT_TRUE(
        planned.job.set_objective({Objective::Kind::kSlowdown, 0.05}, planned.training.now()).ok());
    JobSpec spec = small_spec(3);
    if (says) spec.objective = {Objective::Kind::kLeastEnergy, 0};
    planned.propose(spec);
    Next next(planned, spec);
    next.enter_all();
    EXPECT_EQ(planned.job.status().objective,
              says ? spec.objective : (Objective{Objective::Kind::kSlowdown, 0.05}));
  }
}

}  // namespace
}  // namespace harpe::training
