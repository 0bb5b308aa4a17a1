// Declared stragglers, compared with the measurements of the ranks.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "harpe/plan/policy/pipeline_times.h"
#include "harpe/training/job/played_job_testing.h"

namespace harpe::training {
namespace {

constexpr int kStages = 4;
constexpr int kSlow = 2;  // the declared pipeline

/// A job that runs its plan.
struct Declared : Played {
  explicit Declared(double noise = 0.001, std::uint64_t seed = 1)
      : Played(small_spec(4), {.noise = noise, .seed = seed}) {
    EXPECT_TRUE(training.register_all(job).ok());
    EXPECT_TRUE(running());
    settle();
    training.events.clear();
  }

  void slow_down(double factor) {
    for (int stage = 0; stage < kStages; ++stage) training.slow[{kSlow, stage}] = factor;
  }
  void declare(double factor) {
    ASSERT_TRUE(job.set_straggler({.pipeline = kSlow, .factor = factor}, training.now()).ok());
  }
  /// From now on, a rank of another pipeline sends no report for this number of iterations.
  void lose_reports(int iterations) {
    const std::int64_t until = training.next_iteration() + iterations;
    training.lost = [=](std::int64_t iteration, RankCoordinates coordinates) {
      return iteration < until && coordinates.data == 0 && coordinates.stage == 0;
    };
  }
  int warnings(const std::string& part = {}) const {
    return events(part, JobEvent::Level::kWarning);
  }
};

TEST(DeclaredStraggler, IsNotDoubtedWhereItIsAsSlowAsDeclared) {
  const auto noises = HARPE_UNDER_SANITIZERS ? std::vector{0.01} : std::vector{0.002, 0.01, 0.02};
  const auto factors =
      HARPE_UNDER_SANITIZERS ? std::vector{1.05, 1.5} : std::vector{1.02, 1.05, 1.1, 1.2, 1.5, 3.0};
  for (const double noise : noises) {
    for (const double factor : factors) {
      SCOPED_TRACE("noise " + std::to_string(noise) + ", factor " + std::to_string(factor));
      Declared played(noise, static_cast<std::uint64_t>(factor * 1000));
      played.slow_down(factor);
      played.declare(factor);
      EXPECT_NEAR(played.job.status().wait_until / played.job.plans()->plans().front().time, factor,
                  1e-9)
          << "the others wait at once";
      played.training.run(played.job, 120);
      EXPECT_EQ(played.warnings(), 0);
      EXPECT_LT(played.slowdown(100), 0.005 + noise);
    }
  }
}

TEST(DeclaredStraggler, IsNotDoubtedWhereOneOfItsStagesIsSlow) {
  Declared played(0.002);
  const std::vector<double> factors{1, 1, 1, 1.3};
  const Pipeline pipeline = *Pipeline::build(played.job.spec().schedule);
  const plan::PipelineTimes times(pipeline, played.training.truth());
  played.training.slow[{kSlow, 3}] = 1.3;
  played.declare(times.at_all_max(factors) / times.at_all_max());
  played.training.run(played.job, 100);
  EXPECT_EQ(played.warnings(), 0);
  EXPECT_LT(played.slowdown(80), 0.005);
}

TEST(DeclaredStraggler, ThatIsHealthyIsDoubtedOnceAndHoldsUpNoOne) {
  for (const double factor : {1.1, 1.4}) {
    Declared played(0.002);
    played.declare(factor);
    played.training.run(played.job, 3);
    EXPECT_EQ(played.warnings(), 0) << "a moment's impression";
    EXPECT_EQ(played.job.status().stragglers.front().seen, std::nullopt);
    played.training.run(played.job, 40);
    EXPECT_EQ(played.warnings("is declared to be"), 1);
    EXPECT_EQ(played.warnings(), 1);
    EXPECT_EQ(played.job.phase(), JobPhase::kStraggling) << "it is still declared";
    EXPECT_NEAR(played.job.status().stragglers.front().seen.value_or(0), 1, 0.02);
    EXPECT_LT(played.slowdown(20), 0.005);
    // A new declaration is doubted again.
    played.declare(factor + 0.1);
    played.training.run(played.job, 40);
    EXPECT_EQ(played.warnings(), 2);
    EXPECT_LT(played.slowdown(20), 0.005);
  }
}

TEST(DeclaredStraggler, ThatIsHealthyIsNotWaitedForAgainAfterAllMaxHasShownIt) {
  Declared played(0.002);
  const std::size_t before = played.training.iterations().size();
  played.declare(1.4);
  played.training.run(played.job, 40);
  ASSERT_EQ(played.warnings("is declared to be"), 1);
  int waits = 0;  // number of times that the others began to wait
  bool waited = false;
  const auto& all = played.training.iterations();
  for (std::size_t i = before; i < all.size(); ++i) {
    const bool is_waiting = all[i].time > all[i].all_max_time * 1.1;
    waits += is_waiting && !waited ? 1 : 0;
    waited = is_waiting;
  }
  EXPECT_EQ(waits, 1) << "once, before all-max was seen";
}

/// The first look after the restart takes its slow computations, which are not known yet, for a
/// delay outside of computations.
TEST(DeclaredStraggler, IsNotWaitedForTwiceOnceItsComputationsAreKnown) {
  for (const int missing : {0, 5, 15, 30}) {  // iterations without times of its instructions
    SCOPED_TRACE(missing);
    Declared played(0.002);
    played.slow_down(1.35);
    const std::int64_t until = played.training.next_iteration() + missing;
    played.training.change_report = [=](IterationReport& report) {
      if (report.coordinates.data == kSlow && report.iteration < until) report.instructions.clear();
    };
    played.declare(1.35);
    ASSERT_TRUE(played.restart_server().ok());
    played.training.run(played.job, 80);
    EXPECT_LT(played.slowdown(20), 0.005);
    EXPECT_EQ(played.warnings(), 0);
  }
}

/// Its old costs explain more time than an iteration takes, until they are measured again.
TEST(DeclaredStraggler, ThatRecoversWhileOtherPlansAreMadeIsNotWaitedFor) {
  for (int after = 0; after < 9; ++after) {
    SCOPED_TRACE(after);
    Declared played(0.001);
    played.slow_down(1.5);
    played.declare(1.3);
    ASSERT_TRUE(
        played.job.set_straggler({.pipeline = 0, .factor = 1.1}, played.training.now()).ok());
    played.training.run(played.job, 60);
    for (const int pipeline : {0, 1, 3}) played.training.slow[{pipeline, 1}] = 1.25;
    const auto plans = [&] { return played.job.phase() == JobPhase::kCharacterizing; };
    ASSERT_TRUE(played.training.run_until(played.job, plans, 40));
    played.training.run(played.job, 3);
    played.slow_down(1);
    played.training.slow[{kSlow, 1}] = 1.25;
    played.training.run(played.job, after);
    ASSERT_TRUE(played.job.set_straggler({.pipeline = 0, .factor = 1}, played.training.now()).ok());
    played.training.run(played.job, 140);
    double worst = 0;
    const auto& all = played.training.iterations();
    for (std::size_t i = all.size() - 120; i < all.size(); ++i)
      worst = std::max(worst, all[i].time / all[i].all_max_time - 1);
    EXPECT_LT(worst, 0.02);
  }
}

TEST(DeclaredStraggler, WhoseDelayIsOlderThanItsDeclarationIsNotSlowedDown) {
  Played played(small_spec(4), {.noise = 0.002, .seed = 1});
  const Seconds delay{0.3};
  played.training.delay = [&](int pipeline) { return pipeline == kSlow ? delay : Seconds{0}; };
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  // Another pipeline takes longer, but ends sooner than the delayed pipeline.
  played.training.slow[{0, 1}] = 1.2;
  const Seconds usual = played.job.plans()->plans().front().time;
  ASSERT_TRUE(
      played.job
          .set_straggler({.pipeline = kSlow, .factor = 1 + delay / usual}, played.training.now())
          .ok());
  played.training.run(played.job, 200);
  EXPECT_EQ(played.events("is declared to be", JobEvent::Level::kWarning), 1)
      << "all iterations were as long before";
  EXPECT_LT(played.slowdown(150), 0.005);
  EXPECT_EQ(played.events("longer than promised"), 0);
}

TEST(DeclaredStraggler, ThatIsHealthyIsDoubtedWhereOthersWereSlowBeforeTheProfile) {
  Played played(small_spec(4), {.noise = 0.002, .seed = 1});
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  played.training.slow[{0, 0}] = 1.45;  // no pipeline is slow on both stages
  played.training.slow[{kSlow, 3}] = 1.7;
  const auto profiles = [&] { return played.job.phase() == JobPhase::kProfiling; };
  ASSERT_TRUE(played.training.run_until(played.job, profiles, 2000));
  played.training.run(played.job, 20);
  ASSERT_TRUE(
      played.job.set_straggler({.pipeline = kSlow, .factor = 3}, played.training.now()).ok());
  const auto is_planned = [&] { return played.job.plans() != nullptr; };
  ASSERT_TRUE(played.training.run_until(played.job, is_planned, 2000));
  played.training.run(played.job, 60);
  EXPECT_LT(played.slowdown(40), 0.005);
  EXPECT_EQ(played.events("longer than promised"), 0);
}

TEST(DeclaredStraggler, IsDoubtedBeforeAPauseThatIsFarAhead) {
  Declared played(0.002);
  const Seconds iteration = played.job.plans()->plans().front().time;
  played.training.run_for(iteration * 30);  // no report arrives, so ranks may be far ahead
  played.job.tick(played.training.now());
  played.declare(1.4);
  ASSERT_TRUE(
      played.job.set_pace(Pace{.pause = true, .resumes = {}, .why = "dirty"}, played.training.now())
          .ok());
  const std::int64_t from = played.job.pause().from;
  ASSERT_GT(from, played.training.next_iteration() + 30);
  played.training.run(played.job, 20);
  EXPECT_NEAR(played.job.status().stragglers.front().seen.value_or(0), 1, 0.02);
  EXPECT_EQ(played.job.pause().from, from) << "ranks pause where they were told to";
}

TEST(DeclaredStraggler, IsDoubtedAgainWhereAllMaxHasShownNothing) {
  Declared played(0.002);
  played.declare(1.4);
  played.lose_reports(15);  // during the iterations that would show it
  played.training.run(played.job, 80);
  EXPECT_EQ(played.warnings("is declared to be"), 1);
  EXPECT_LT(played.slowdown(20), 0.005);
}

TEST(DeclaredStraggler, IsDoubtedAsSoonAsReportsThatWereMissingForLongAreThere) {
  Declared played(0.002);
  played.declare(1.4);
  played.lose_reports(70);
  played.training.run(played.job, 70);
  EXPECT_EQ(played.warnings("is declared to be"), 0);
  played.training.run(played.job, 12);
  EXPECT_EQ(played.warnings("is declared to be"), 1);
}

/// The wait for the next probe grows only if probes show nothing although they are reported.
TEST(DeclaredStraggler, IsDoubtedSoonAfterProbesWhoseReportsWereLost) {
  Declared played(0.002);
  played.declare(1.4);
  for (int i = 0; i < 60; ++i) {
    played.training.run(played.job, 1);
    const auto& last = played.training.last();
    if (last.energy > last.all_max_energy * 0.99) played.lose_reports(1);
  }
  EXPECT_EQ(played.warnings("is declared to be"), 0);
  played.training.run(played.job, 16);
  EXPECT_EQ(played.warnings("is declared to be"), 1);
}

TEST(DeclaredStraggler, IsNotDelayedOutsideByWhatBecomesSlowWhileAllMaxIsSeen) {
  for (int after = 6; after < 12; ++after) {
    SCOPED_TRACE(after);
    Declared played(0.002);
    played.declare(1.3);
    played.training.run(played.job, after);
    played.training.slow[{kSlow, 1}] = 1.35;
    played.training.run(played.job, 120);
    EXPECT_LT(played.slowdown(100), 0.005);
  }
}

TEST(DeclaredStraggler, IsFollowedWhereItsAssignmentsWereMadeWhileAnIterationWasHeldUp) {
  Declared played(0.002);
  PlayedTraining& training = played.training;
  const std::int64_t held_up = training.next_iteration();
  training.stall = [=](std::int64_t iteration) { return Seconds{iteration == held_up ? 40.0 : 0}; };
  const plan::Straggler straggler{.pipeline = kSlow, .factor = 1.3};
  ASSERT_TRUE(played.job.set_straggler(straggler, training.now() + Seconds{39}).ok());
  training.slow[{kSlow, 1}] = 1.35;
  training.run(played.job, 30);
  EXPECT_FALSE(played.job.status().slow_workers.empty());
  training.run(played.job, 100);
  EXPECT_LT(played.slowdown(100), 0.005);
}

/// As after a server has lost its data: the delay cannot be separated from other time.
TEST(DeclaredStraggler, IsNotWaitedForWhereAllMaxWasNeverKnownWithoutIt) {
  JobSpec spec = small_spec(4);
  spec.profile = truth_of(spec);
  spec.blocking_power = Watts{80};
  spec.objective.value = 0.1;
  Played played(spec, {.overhead = Seconds{0.4}});
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  std::int64_t until = 1000;
  played.training.lost = [&](std::int64_t iteration, RankCoordinates coordinates) {
    return iteration < until && coordinates.data == 0 && coordinates.stage == 0;
  };
  ASSERT_TRUE(played.running());
  ASSERT_TRUE(
      played.job.set_straggler({.pipeline = kSlow, .factor = 1.3}, played.training.now()).ok());
  until = played.training.next_iteration() + 3;
  played.training.run(played.job, 100);
  EXPECT_LT(played.slowdown(20), 0.105);
  EXPECT_NEAR(played.job.status().all_max_time / played.training.last().all_max_time, 1, 0.005);
  EXPECT_NEAR(played.job.status().wait_until / played.job.plans()->plans().front().time, 1.1, 0.01);
}

TEST(DeclaredStraggler, IsBelievedWhereItsCauseLiesOutsideOfComputations) {
  Declared played(0.002);
  const double factor = 1.2;
  // For example a slow link: the pipeline ends later than its computations explain.
  const Seconds delay = played.job.plans()->plans().front().time * (factor - 1);
  played.training.delay = [&](int pipeline) { return pipeline == kSlow ? delay : Seconds{0}; };
  played.declare(factor);
  played.training.run(played.job, 60);
  EXPECT_EQ(played.warnings(), 0);
  EXPECT_LT(played.slowdown(40), 0.005);
  EXPECT_NEAR(played.job.status().wait_until / played.job.plans()->plans().front().time, factor,
              0.01);
  const auto& last = played.training.last();
  EXPECT_LT(last.energy, last.all_max_energy * 0.9) << "the others need not hurry";
}

TEST(DeclaredStraggler, ThatIsMuchSlowerIsWaitedForAsLongAsItTakes) {
  Declared played(0.002);
  played.slow_down(1.5);
  played.declare(1.2);
  played.training.run(played.job, 60);
  EXPECT_EQ(played.warnings(), 0);
  EXPECT_LT(played.slowdown(40), 0.005);
  EXPECT_NEAR(played.job.status().wait_until / played.job.plans()->plans().front().time, 1.5, 0.01);
}

TEST(DeclaredStraggler, IsForgottenWhenTrainingStartsAgain) {
  Declared played;
  played.declare(1.4);
  played.training.start_again("second", 0);
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  played.training.run(played.job, 20);
  EXPECT_TRUE(played.job.status().stragglers.empty());
  EXPECT_EQ(played.events("declared before training started again"), 1);
  EXPECT_LT(played.slowdown(10), 0.005);
}

}  // namespace
}  // namespace harpe::training
