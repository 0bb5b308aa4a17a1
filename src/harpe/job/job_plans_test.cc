// Plans that come in two goes: quick ones, then better ones.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harpe/job/played_job.h"

namespace harpe {
namespace {

/// A job of a known profile that waits for its plans, with tables for it.
struct Planned {
  Planned() : spec(spec_of()), job(*Job::create(spec, kNow)) {
    const SimulatedTraining training(spec, *spec.profile, {});
    for (const RankCoordinates coordinates : training.places())
      EXPECT_TRUE(job.register_rank(training.registration(coordinates), kNow).ok());
    ticket = job.take_effects().characterize->ticket;
  }

  static JobSpec spec_of() {
    JobSpec spec = small_spec(3);
    spec.profile = truth_of(spec);
    spec.blocking_power = Watts{80};
    return spec;
  }
  PlanTable table(Effort effort, int plans = 10) const {
    const auto frontier =
        characterize(spec.schedule, *spec.profile, {.blocking_power = *spec.blocking_power});
    return *PlanTable::build(*frontier, {.plans = plans, .plan = {.effort = effort}});
  }
  std::string assignments() const {
    std::string text;
    for (int pipeline = 0; pipeline < 3; ++pipeline) {
      for (int stage = 0; stage < 4; ++stage) {
        const std::vector<StageAssignment> all = job.assignments(pipeline, stage);
        for (const Megahertz clock : all.back().clocks) text += std::to_string(clock.value) + " ";
      }
    }
    return text;
  }

  static constexpr Seconds kNow{1000};
  JobSpec spec;
  Job job;
  std::uint64_t ticket = 0;
};

TEST(Plans, QuickOnesAreRunUntilBetterOnesCome) {
  Planned planned;
  Job& job = planned.job;
  const PlanTable quick = planned.table(Effort::kQuick);
  const PlanTable best = PlanTable::merged(quick, planned.table(Effort::kFull));
  job.characterized(planned.ticket, quick, Planned::kNow, true);
  EXPECT_EQ(job.phase(), JobPhase::kRunning);
  const std::uint64_t version = job.version();
  const Joules energy = job.pipelines()[0].energy;
  (void)job.take_effects();

  job.characterized(planned.ticket, best, Planned::kNow);
  const JobEffects effects = job.take_effects();
  EXPECT_EQ(job.phase(), JobPhase::kRunning);
  EXPECT_TRUE(effects.plans);
  EXPECT_TRUE(effects.assignments);
  EXPECT_EQ(job.version(), version + 1);
  EXPECT_LT(job.pipelines()[0].energy, energy);
  EXPECT_EQ(job.plans()->json(), best.json());
}

TEST(Plans, APlanInForceStaysWhereNoneIsBetter) {
  Planned planned;
  Job& job = planned.job;
  const PlanTable quick = planned.table(Effort::kQuick);
  // More plans of the same kind: that of the objective, and the stragglers', are among them.
  const PlanTable more = PlanTable::merged(quick, planned.table(Effort::kQuick, 5));
  job.characterized(planned.ticket, quick, Planned::kNow, true);
  ASSERT_TRUE(job.set_straggler({.pipeline = 1, .factor = 1.1}, Planned::kNow).ok());
  const std::uint64_t version = job.version();
  const std::string assignments = planned.assignments();
  (void)job.take_effects();

  job.characterized(planned.ticket, more, Planned::kNow);
  EXPECT_EQ(job.phase(), JobPhase::kStraggling);
  EXPECT_EQ(job.version(), version);
  EXPECT_EQ(planned.assignments(), assignments);
  EXPECT_FALSE(job.take_effects().assignments);
  for (const PipelineState& state : job.pipelines())
    EXPECT_TRUE(state.plan.from == PlanRef::From::kAllMax ||
                job.plans()->plans()[state.plan.plan].time == state.time)
        << "by the new table";
}

TEST(Plans, NoneAreTakenTwiceNorAfterAFailure) {
  Planned planned;
  const PlanTable quick = planned.table(Effort::kQuick, 5);
  const PlanTable other = planned.table(Effort::kQuick, 3);
  planned.job.characterized(planned.ticket, quick, Planned::kNow, true);
  planned.job.characterized(planned.ticket, Error::invalid("out of memory"), Planned::kNow);
  EXPECT_EQ(planned.job.phase(), JobPhase::kRunning);
  planned.job.characterized(planned.ticket, other, Planned::kNow);
  EXPECT_EQ(planned.job.plans()->json(), quick.json());
}

TEST(Plans, AProfileThatMovesMeanwhileMakesThemOld) {
  JobSpec spec = small_spec();
  spec.plans = 4;
  Played played(spec);
  played.training.better_plans_take = 60;
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  ASSERT_TRUE(played.plans_anew_when_slower(1));
  const PlanTable* plans = played.job.plans();
  while (played.job.phase() == JobPhase::kCharacterizing) {
    ASSERT_EQ(played.job.plans(), plans);
    played.training.run(played.job, 1);
  }
  EXPECT_NE(played.job.plans(), plans);
  ASSERT_TRUE(played.running());
}

}  // namespace
}  // namespace harpe
