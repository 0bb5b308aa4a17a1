// Requested pauses: all ranks pause before the same iteration, and the time of the pause counts in
// no measurement.

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "harpe/training/job/pausing_job_testing.h"

namespace harpe::training {
namespace {

TEST(JobPause, AllRanksPauseBeforeTheSameIterationAndGoOnTogether) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Pausing played(seed, Seconds{0.24});
    std::mt19937 random(seed);
    const auto some = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
    played.iterate(some(40));
    for (int pause = 0; pause < 6; ++pause) {
      const bool is_short = some(3) == 1;
      played.while_waiting = [&] {
        if (!is_short) played.training.run_for(Seconds{3600});
        played.go_on();
      };
      played.ask();
      // A short pause is withdrawn before all ranks wait, or just when they do.
      played.iterate(is_short ? some(9) : 15);
      played.go_on();
      played.iterate(some(30));
    }
    EXPECT_EQ(played.disagreements, 0);
    EXPECT_GE(played.paused_before.size(), 1U);
    EXPECT_EQ(played.events("promised"), 0);
  }
}

TEST(JobPause, RanksThatAreCutOffWhenItIsAskedDelayIt) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Pausing played(seed, Seconds{0.2});
    std::mt19937 random(seed);
    played.iterate(30);
    const Seconds until =
        played.training.now() + Seconds{std::uniform_real_distribution<double>(1, 40)(random)};
    const std::size_t cut = random() % 8;
    played.is_cut = [=](std::size_t rank, Seconds at) { return rank == cut && at < until; };
    played.while_waiting = [&] { played.go_on(); };
    played.ask();
    played.iterate(120);
    EXPECT_EQ(played.disagreements, 0);
    EXPECT_EQ(played.paused_before.size(), 1U);
  }
}

/// As in training whose iterations take less time than their reports.
TEST(JobPause, RanksWhoseReportsAreFarBehindPauseToo) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Pausing played(seed, Seconds{0.2});
    played.behind = 10 * seed;
    played.while_waiting = [&] { played.go_on(); };
    played.iterate(300);
    played.ask();
    played.iterate(40);
    EXPECT_EQ(played.disagreements, 0);
    EXPECT_EQ(played.paused_before.size(), 1U);
  }
}

TEST(JobPause, RanksThatWereAllCutOffPauseSoonAfter) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Pausing played(seed, Seconds{0.2});
    played.iterate(30);
    const Seconds until = played.training.now() + Seconds{seed * 10.0};
    played.is_cut = [=](std::size_t, Seconds at) { return at < until; };
    while (played.training.now() < until) played.iterate(1);
    played.while_waiting = [&] { played.go_on(); };
    played.ask();
    played.iterate(40);
    EXPECT_EQ(played.disagreements, 0);
    EXPECT_EQ(played.paused_before.size(), 1U);
  }
}

/// If messages are slow, the pause is many iterations ahead, and plans must not wait for it.
TEST(JobPause, WithdrawnOnceAllRanksKnowOfItLetsPlansChangeBeforeIt) {
  int pauses = 0;
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Pausing played(seed, Seconds{6});
    played.iterate(300);
    const Seconds fast = played.training.last().time;
    played.ask();
    const std::int64_t pause = played.job.status().pause.from;
    const std::int64_t withdrawn = (played.training.next_iteration() + pause) / 2;
    while (played.training.next_iteration() < withdrawn) played.iterate(1);
    played.go_on();
    ASSERT_TRUE(played.job.set_objective({.value = 0.2}, played.training.now()).ok());
    while (played.training.next_iteration() < pause) played.iterate(1);
    EXPECT_GT(played.training.last().time, fast * 1.1);
    played.iterate(40);
    EXPECT_GT(played.training.last().time, fast * 1.1);
    EXPECT_EQ(played.disagreements, 0);
    for (const std::int64_t one : played.paused_before) EXPECT_EQ(one, pause);
    pauses += static_cast<int>(played.paused_before.size());
  }
  EXPECT_GE(pauses, 5) << "all ranks knew of it in time";
}

/// Requests a pause after a time without reports, in which ranks may have run on: it is far ahead.
std::int64_t ask_far_ahead(Pausing& played) {
  played.iterate(300);
  played.training.run_for(played.training.last().time * 40);
  played.job.tick(played.training.now());
  played.ask();
  return played.job.status().pause.from;
}

TEST(JobPause, WithdrawnOnceAllRanksKnowOfItDelaysNoLookAtAllMax) {
  Pausing played(1, Seconds{0.1}, small_spec(4));
  const std::int64_t pause = ask_far_ahead(played);
  ASSERT_GT(pause, played.training.next_iteration() + 30);
  played.iterate(5);
  played.go_on();
  const std::uint64_t version = played.job.version();
  ASSERT_TRUE(played.job.set_straggler({.pipeline = 2, .factor = 1.4}, played.training.now()).ok());
  played.iterate(20);
  EXPECT_NEAR(played.job.status().stragglers.front().seen.value_or(0), 1, 0.02);
  EXPECT_LT(played.job.version(), version + 40) << "assignments change in every iteration";
  played.iterate(80);
  EXPECT_EQ(played.paused_before, std::vector{pause});
  EXPECT_EQ(played.disagreements, 0);
}

TEST(JobPause, SavingsCountUntilIt) {
  Pausing played(1);
  const std::int64_t pause = ask_far_ahead(played);
  ASSERT_GT(pause, played.training.next_iteration() + 30);
  const Joules saved = played.job.status().saved;
  ASSERT_GT(saved.value, 0);
  played.iterate(30);
  EXPECT_GT(played.job.status().saved.value, saved.value * 1.05);
}

TEST(JobPause, IsNotAskedForWhereARankNeverHears) {
  Pausing played(1);
  played.iterate(30);
  played.is_cut = [](std::size_t rank, Seconds) { return rank == 3; };
  played.ask();
  played.iterate(300);
  EXPECT_TRUE(played.paused_before.empty());
  EXPECT_EQ(played.job.status().pause.is, PauseState::Is::kNotFollowed);
  EXPECT_EQ(played.events("would learn of it too late"), 1);
}

/// Two runs of the same training, which differ only in a pause of some hours.
TEST(JobPause, APausedHourChangesNoMeasuredTime) {
  const auto run = [](bool pauses) {
    Pausing played(7);
    played.while_waiting = [&] {
      played.wait(Seconds{3 * 3600.0});
      played.go_on();
    };
    played.iterate(400);
    EXPECT_NE(played.job.plans(), nullptr);
    if (pauses) played.ask();
    played.iterate(60);
    EXPECT_EQ(played.paused_before.size(), pauses ? 1U : 0U);
    EXPECT_EQ(played.events("slower"), 0);
    EXPECT_EQ(played.events("no reports"), 0);
    EXPECT_EQ(played.events("promised"), 0);
    const JobStatus status = played.job.status();
    EXPECT_TRUE(status.stragglers.empty());
    EXPECT_EQ(status.assignments_late, 0);
    EXPECT_FALSE(status.rolled_back_until);
    return status;
  };
  const JobStatus with = run(true), without = run(false);
  EXPECT_NEAR(with.iteration_time / without.iteration_time, 1, 1e-3);
  EXPECT_NEAR(with.all_max_time / without.all_max_time, 1, 1e-9);
  EXPECT_NEAR(with.energy / without.energy, 1, 0.02);
}

TEST(JobPause, ProfilingGoesOnAfterIt) {
  Pausing played(3);
  played.while_waiting = [&] {
    played.training.run_for(Seconds{3600});
    played.go_on();
  };
  played.iterate(20);
  ASSERT_EQ(played.job.phase(), JobPhase::kProfiling);
  played.ask();
  played.iterate(30);
  EXPECT_EQ(played.paused_before.size(), 1U);
  played.iterate(500);
  ASSERT_EQ(played.job.phase(), JobPhase::kRunning);
  EXPECT_LT(played.training.last().energy, played.training.last().all_max_energy);
}

TEST(JobPause, SaysWhatBecomesOfIt) {
  Pausing played(5);
  played.iterate(30);
  EXPECT_EQ(played.job.status().pause.is, PauseState::Is::kNone);
  PauseState seen;
  played.while_waiting = [&] {
    seen = played.job.status().pause;
    played.go_on();
  };
  played.ask();
  EXPECT_EQ(played.job.status().pause.is, PauseState::Is::kAsked);
  played.iterate(15);
  EXPECT_EQ(seen.is, PauseState::Is::kPaused);
  EXPECT_EQ(seen.waiting, 8);
  EXPECT_EQ(seen.from, played.paused_before.front());
  EXPECT_EQ(played.events("all 8 ranks pause"), 1);
  EXPECT_EQ(played.job.status().pause.is, PauseState::Is::kNone);

  played.follows = false;
  played.ask();
  played.iterate(30);
  EXPECT_EQ(played.job.status().pause.is, PauseState::Is::kNotFollowed);
  EXPECT_EQ(played.events("training does not pause"), 1);
}

TEST(JobPause, AServerThatStartsAgainWakesNoRank) {
  for (const bool late : {false, true}) {
    SCOPED_TRACE(late);
    Pausing played(9);
    Seconds until{};
    played.while_waiting = [&] {
      ASSERT_TRUE(played.restart_server().ok());
      until = played.training.now() + Seconds{1800};
    };
    // The test ends the pause, not the ranks.
    played.is_cut = [&](std::size_t, Seconds at) {
      if (until > Seconds{0} && at >= until && played.job.pace()) played.go_on();
      return false;
    };
    played.iterate(late ? 400 : 30);
    played.ask();
    played.iterate(20);
    EXPECT_EQ(played.paused_before.size(), 1U);
    EXPECT_EQ(played.disagreements, 0);
    EXPECT_GT(played.waited, Seconds{1799});
    EXPECT_LT(played.waited, Seconds{1802});
  }
}

/// As soon as the pause is requested, all ranks or one rank are cut off. Training continues, and a
/// server that takes over the job then does not know which ranks were informed.
TEST(JobPause, AServerMayStartAgainBeforeAllKnowOfIt) {
  for (const bool all : {false, true}) {
    for (int iterations = 0; iterations < 30; ++iterations) {
      SCOPED_TRACE(testing::Message() << (all ? "all" : "one") << ", " << iterations);
      Pausing played(5);
      played.iterate(60);
      bool cut = true;
      played.is_cut = [&](std::size_t rank, Seconds) { return cut && (all || rank == 1); };
      played.while_waiting = [&] { played.go_on(); };
      played.ask();
      for (int i = 0; i < iterations && played.paused_before.empty(); ++i) played.iterate(1);
      if (!played.paused_before.empty()) break;
      ASSERT_TRUE(played.restart_server().ok());
      cut = false;
      played.iterate(60);
      EXPECT_EQ(played.disagreements, 0);
      EXPECT_LE(played.paused_before.size(), 1U);
    }
  }
}

TEST(JobPause, ARankThatIsAnotherProcessHasAllAskedAnew) {
  Pausing played(11);
  played.iterate(30);
  played.while_waiting = [&] {
    played.training.run_for(Seconds{100});
    RankRegistration other = played.training.registration({0, 1, 0});
    other.session = "another";
    ASSERT_TRUE(played.job.register_rank(other, played.training.now()).ok());
    EXPECT_EQ(played.job.status().pause.is, PauseState::Is::kAsked);
    ASSERT_TRUE(played.job
                    .register_rank(played.training.registration({0, 1, 0}),
                                   played.training.now() + Seconds{100})
                    .ok());
  };
  played.ask();
  played.iterate(8);
  EXPECT_EQ(played.paused_before.size(), 1U);
  EXPECT_LT(played.waited, Seconds{200});
}

TEST(JobPause, TrainingThatEndsToPauseHasNotEnded) {
  Pausing played(13);
  played.iterate(30);
  played.ask();
  for (const RankCoordinates rank : played.training.places()) {
    ASSERT_TRUE(played.job
                    .end_rank({.coordinates = rank, .session = played.training.session(rank)},
                              played.training.now())
                    .ok());
  }
  EXPECT_FALSE(played.job.ended());
  PauseState state = played.job.status().pause;
  EXPECT_EQ(state.is, PauseState::Is::kPaused);
  EXPECT_TRUE(state.ended);
  // The job stays active for however long the pause lasts, and another server knows of the pause.
  played.training.run_for(Seconds{86'400 * 3.0});
  played.job.tick(played.training.now());
  EXPECT_EQ(played.job.heard(), played.training.now());
  ASSERT_TRUE(played.restart_server().ok());
  EXPECT_TRUE(played.job.status().pause.ended);
  ASSERT_TRUE(played.job.set_pace({}, played.training.now()).ok());
  EXPECT_EQ(played.job.status().pause.is, PauseState::Is::kNone);
  EXPECT_FALSE(played.job.ended());
  played.training.start_again("second", 30);
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  played.training.run(played.job, 40);
  EXPECT_GT(played.job.status().newest_iteration, 60);
}

TEST(JobPause, TrainingThatStartsWhileItIsAskedPausesToo) {
  Pausing played(17);
  played.ask();
  played.while_waiting = [&] { played.go_on(); };
  played.iterate(15);
  ASSERT_EQ(played.paused_before.size(), 1U);
  EXPECT_LE(played.paused_before.front(), 10);
  EXPECT_EQ(played.disagreements, 0);
}

}  // namespace
}  // namespace harpe::training
