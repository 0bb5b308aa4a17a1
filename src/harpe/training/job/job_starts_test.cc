// Processes that may start training under a job's id, and processes that change nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "harpe/training/job/played_job_testing.h"

namespace harpe::training {
namespace {

using ::testing::HasSubstr;

/// A job with 8 ranks that runs its plan.
class Starts : public ::testing::Test {
 protected:
  Starts() {
    EXPECT_TRUE(training_.register_all(job_).ok());
    EXPECT_TRUE(played_.running());
    played_.settle();
  }

  /// Returns a process of another start of training that has never registered.
  RankRegistration fresh(RankCoordinates coordinates, const std::string& run,
                         const std::string& session) const {
    RankRegistration rank = training_.registration(coordinates);
    rank.run = run;
    rank.session = session + std::to_string(coordinates.data) + std::to_string(coordinates.stage);
    return rank;
  }
  Result<RankEntry> enter(const RankRegistration& rank) {
    return job_.register_rank(rank, training_.now());
  }
  bool holds(RankCoordinates coordinates, const std::string& session) const {
    return job_.session(coordinates) == session;
  }
  /// True if all places are held by the ranks that PlayedTraining plays.
  bool is_undisturbed() const {
    return std::ranges::all_of(training_.places(), [&](RankCoordinates coordinates) {
      return job_.session(coordinates) == training_.session(coordinates);
    });
  }
  /// Returns a rank that registers again. Harpe's client then sends its earlier start.
  RankRegistration again(RankCoordinates coordinates, const RankEntry& entry) const {
    RankRegistration rank = training_.registration(coordinates);
    rank.incarnation = job_.incarnation();
    rank.start = entry.start;
    return rank;
  }
  const Refusal* refusal(const std::string& who) const {
    refused_ = job_.status().refused;
    const auto found = std::ranges::find_if(
        refused_, [&](const Refusal& one) { return one.who.find(who) != std::string::npos; });
    return found == refused_.end() ? nullptr : &*found;
  }

  Played played_{small_spec()};
  Job& job_ = played_.job;
  PlayedTraining& training_ = played_.training;

 private:
  mutable std::vector<Refusal> refused_;
};

TEST_F(Starts, AStrayRankOfAnotherRunChangesNothingAndIsNamed) {
  const Seconds before = training_.last().time;
  const auto stray = fresh({1, 2, 0}, "wrong", "stray");
  for (int i = 0; i < 20; ++i) {
    const auto entered = enter(stray);
    ASSERT_TRUE(entered.ok());
    EXPECT_TRUE(entered->gathers);
    EXPECT_EQ(entered->present, 1);
    EXPECT_EQ(entered->all, 8);
    training_.run(job_, 1);
    EXPECT_EQ(training_.last().time, before);
  }
  EXPECT_TRUE(is_undisturbed());
  EXPECT_EQ(job_.phase(), JobPhase::kRunning);
  const Refusal* refused = refusal("pipeline 1, stage 2");
  ASSERT_NE(refused, nullptr);
  EXPECT_THAT(refused->who, HasSubstr("run 'wrong'"));
  EXPECT_EQ(refused->count, 20);
  EXPECT_EQ(std::ranges::count_if(
                training_.events,
                [](const JobEvent& one) { return one.text.find("'wrong'") != std::string::npos; }),
            1)
      << "the log says it once";
}

TEST_F(Starts, AWholeNodeOfStraysChangesNothing) {
  for (const int stage : {0, 1})
    for (const int data : {0, 1})
      EXPECT_TRUE(enter(fresh({data, stage, 0}, "wrong", "stray"))->gathers);
  EXPECT_TRUE(is_undisturbed());
}

TEST_F(Starts, MoreThanHalfOfAnotherRunTakeOverAtOnceAndThoseThatWaitedHoldTheirPlaces) {
  training_.start_again("second", 0);
  int gathering = 0;
  for (const RankCoordinates coordinates : training_.places())
    gathering += enter(training_.registration(coordinates))->gathers;
  EXPECT_EQ(gathering, 4);
  EXPECT_TRUE(is_undisturbed());
  EXPECT_EQ(job_.run(), "second");
  EXPECT_EQ(job_.phase(), JobPhase::kRunning) << "its plans are still good";
  played_.settle();
  EXPECT_EQ(training_.last().versions.front(), job_.version());
}

TEST_F(Starts, OtherProcessesUnderTheSameRunNameTakeOverToo) {
  // As with torchrun and a fixed rendezvous id, or with a script without HARPE_RUN.
  for (const RankCoordinates coordinates : training_.places()) {
    RankRegistration rank = training_.registration(coordinates);
    rank.session = "new " + rank.session;
    EXPECT_TRUE(enter(rank).ok());
  }
  for (const RankCoordinates coordinates : training_.places())
    EXPECT_TRUE(holds(coordinates, "new " + training_.session(coordinates)));
  EXPECT_EQ(job_.phase(), JobPhase::kRunning);
}

TEST_F(Starts, ARunNameThatWasThereBeforeMayComeAgain) {
  // Launch, elastic restart, launch again: "r.0", "r.1", "r.0".
  for (const std::string session : {"first launch", "restart", "second launch"}) {
    const std::string run = session == "restart" ? "r.1" : "r.0";
    for (const RankCoordinates coordinates : training_.places())
      EXPECT_TRUE(enter(fresh(coordinates, run, session)).ok());
    EXPECT_EQ(job_.run(), run);
    EXPECT_TRUE(holds({0, 0, 0}, session + "00"));
    EXPECT_EQ(job_.phase(), JobPhase::kRunning);
  }
}

TEST_F(Starts, ThoseWhoWereReplacedDoNotComeBackWhileOthersTrain) {
  std::vector<RankEntry> old;
  for (const RankCoordinates coordinates : training_.places())
    old.push_back(*enter(training_.registration(coordinates)));
  for (const RankCoordinates coordinates : training_.places()) {
    ASSERT_TRUE(enter(fresh(coordinates, "second", "other")).ok());
  }
  // All replaced ranks try, and they are as many as the new ones.
  for (std::size_t i = 0; i < old.size(); ++i) {
    const auto entered = enter(again(training_.places()[i], old[i]));
    ASSERT_FALSE(entered.ok());
    EXPECT_EQ(entered.error().code, ErrorCode::kConflict);
    EXPECT_THAT(entered.error().text(), HasSubstr("earlier start"));
  }
  EXPECT_EQ(job_.run(), "second");
  // They may return once the ranks that replaced them are gone.
  const auto entered =
      job_.register_rank(again({0, 0, 0}, old[0]), training_.now() + Job::kSilence + Seconds{1});
  ASSERT_TRUE(entered.ok());
  EXPECT_FALSE(entered->gathers);
  EXPECT_EQ(job_.run(), "first");
}

TEST_F(Starts, AfterTheWholeJobWasKilledTheFirstRankOfAnotherRunTakesOver) {
  const Seconds later = training_.now() + Job::kSilence + Seconds{1};
  const auto entered = job_.register_rank(fresh({0, 0, 0}, "second", "s"), later);
  ASSERT_TRUE(entered.ok());
  EXPECT_FALSE(entered->gathers);
  EXPECT_EQ(job_.run(), "second");
  EXPECT_EQ(job_.phase(), JobPhase::kRegistering);
}

TEST_F(Starts, WhoMayDecideThatItTakesOverNeedsNoOthers) {
  auto rank = fresh({0, 0, 0}, "second", "s");
  rank.take_over = true;
  EXPECT_FALSE(enter(rank)->gathers);
  EXPECT_EQ(job_.run(), "second");
}

TEST_F(Starts, AProcessThatIsStartedAgainAloneGetsItsPlaceOnceTheOneBeforeIsSilent) {
  RankRegistration rank = training_.registration({0, 1, 0});
  rank.session = "started again";
  EXPECT_TRUE(enter(rank)->gathers);
  training_.lost = [](std::int64_t, RankCoordinates coordinates) {
    return coordinates == RankCoordinates{0, 1, 0};
  };
  EXPECT_TRUE(training_.run_until(job_, [&] { return enter(rank)->start > 0; }, 1000));
  EXPECT_TRUE(holds({0, 1, 0}, "started again"));
  EXPECT_EQ(refusal("pipeline 0, stage 1"), nullptr) << "it is refused no more";
}

TEST_F(Starts, GatheringsThatGetNoFurtherAreForgotten) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(enter(fresh({0, i, 0}, "slow", "s"))->gathers);
  const Seconds begin = training_.now();
  EXPECT_TRUE(
      training_.run_until(job_, [&] { return training_.now() - begin > Job::kSilence; }, 1000));
  // The fifth rank of eight, but the first after the others were forgotten.
  EXPECT_EQ(enter(fresh({1, 0, 0}, "slow", "s"))->present, 1);
}

TEST_F(Starts, RefusalsAreBoundedInStatusAndLog) {
  for (int i = 0; i < 500; ++i)
    EXPECT_TRUE(enter(fresh({0, 0, 0}, "run " + std::to_string(i), "s"))->gathers);
  EXPECT_EQ(job_.status().refused.size(), Job::kMostRefusals);
  EXPECT_LE(job_.take_effects().events.size(), 8U);
  const std::string hostile = "\x1b[2J'\n";
  EXPECT_TRUE(enter(fresh({0, 0, 0}, hostile, "s"))->gathers);
  EXPECT_EQ(job_.status().refused.back().who.find('\n'), std::string::npos);
  EXPECT_EQ(job_.status().refused.back().who.find('\x1b'), std::string::npos);
}

TEST_F(Starts, WhoWasRefusedElsewhereIsNamedToo) {
  job_.refused("10.0.0.7", "the token has expired", training_.now());
  job_.refused("10.0.0.7", "the token has expired", training_.now());
  const Refusal* refused = refusal("10.0.0.7");
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->count, 2);
  EXPECT_EQ(refused->why, "the token has expired");
  EXPECT_EQ(job_.take_effects().events.size(), 1U);
  for (int i = 0; i < 500; ++i)
    job_.refused("10.0.1." + std::to_string(i), "the token has expired", training_.now());
  EXPECT_LE(job_.take_effects().events.size(), 8U) << "the log is not flooded";
}

TEST_F(Starts, RanksThatAChangeMayNotReachAreCounted) {
  EXPECT_EQ(job_.unheard(training_.now()), 0);
  // A server that has just taken over the job does not know where its ranks are.
  const Seconds later = training_.now() + Seconds{1};
  job_ = *Job::read(job_.texts(), {}, later);
  job_.go_on(later);
  EXPECT_EQ(job_.unheard(later), 8);
  training_.run_for(Seconds{2});
  training_.lost = [](std::int64_t, RankCoordinates coordinates) { return coordinates.data == 1; };
  training_.run(job_, 1);
  EXPECT_EQ(job_.unheard(training_.now()), 4);
  training_.lost = [](std::int64_t, RankCoordinates) { return false; };
  training_.run(job_, 1);
  EXPECT_EQ(job_.unheard(training_.now()), 0);
  EXPECT_EQ(job_.unheard(training_.now() + Job::kUnheard + Seconds{1}), 8);
}

TEST_F(Starts, ARestartOfTheServerMakesNoRankSilent) {
  // Ranks could not report while there was no server, however long that was.
  training_.run_for(Seconds{3600});
  job_ = *Job::read(job_.texts(), {}, training_.now());
  job_.go_on(training_.now());
  EXPECT_TRUE(enter(fresh({0, 0, 0}, "second", "stray"))->gathers);
  EXPECT_TRUE(enter(fresh({0, 0, 0}, job_.run(), "same name"))->gathers);
  EXPECT_TRUE(is_undisturbed());
  training_.run_for(Job::kSilence + Seconds{1});
  EXPECT_FALSE(enter(fresh({0, 0, 0}, "second", "other"))->gathers);
}

TEST_F(Starts, WhereAllRanksHaveEndedTheNextStartTakesOverWithItsFirst) {
  const std::uint64_t before = enter(training_.registration({0, 0, 0}))->start;
  const std::vector<RankCoordinates> places = training_.places();
  for (const RankCoordinates coordinates : places) {
    EXPECT_FALSE(job_.ended().has_value());
    EXPECT_TRUE(enter(fresh({0, 0, 0}, "second", "early"))->gathers) << "some still train";
    EXPECT_TRUE(job_.end_rank({coordinates, training_.session(coordinates)}, training_.now()).ok());
    EXPECT_EQ(job_.session(coordinates), "");
  }
  EXPECT_TRUE(job_.ended().has_value());
  EXPECT_EQ(job_.unheard(training_.now() + Seconds{100}), 0)
      << "those that ended need no assignments";
  // Also under the same name, as with a fixed rendezvous id.
  for (const RankCoordinates coordinates : places) {
    const Result<RankEntry> entered =
        enter(fresh(coordinates, training_.registration(coordinates).run, "next"));
    ASSERT_TRUE(entered.ok()) << entered.error().text();
    EXPECT_FALSE(entered->gathers);
    EXPECT_EQ(entered->start, before + 1);
  }
  EXPECT_FALSE(job_.ended().has_value());
  EXPECT_EQ(job_.phase(), JobPhase::kRunning);
}

// Lives of the job.

TEST(Incarnation, AReportOfAnotherLifeIsRefusedAndTeachesNothing) {
  Job job = *Job::create(small_spec(), Seconds{1000}, "second life");
  PlayedTraining training(small_spec(), truth_of(small_spec()), {});
  ASSERT_TRUE(training.register_all(job).ok());
  IterationReport report;
  report.session = training.session({0, 0, 0});
  report.time = Seconds{1};
  report.incarnation = "first life";
  const auto refused = job.report(report, Seconds{1001});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_EQ(job.status().newest_iteration, -1);
  EXPECT_EQ(job.status().reports, 0);
  EXPECT_EQ(job.status().reports_refused, 1);
  report.incarnation = "second life";
  EXPECT_TRUE(job.report(report, Seconds{1001}).ok());
}

TEST(Incarnation, IsKeptOverARestartOfTheServerAndOfOldSnapshotsMadeUpOnce) {
  const Job job = *Job::create(small_spec(), Seconds{1000}, "alive");
  EXPECT_EQ(Job::read(job.texts(), {}, Seconds{2000})->incarnation(), "alive");
  JobTexts texts = job.texts();
  std::string& old = texts.state;
  for (const std::string member :
       {R"("incarnation":"alive",)", R"("start":0,)", R"("has_plans":false,)"}) {
    const std::size_t at = old.find(member);
    ASSERT_NE(at, std::string::npos) << member;
    old.erase(at, member.size());
  }
  const std::string made_up = Job::read(texts, {}, Seconds{2000})->incarnation();
  EXPECT_FALSE(made_up.empty());
  EXPECT_EQ(Job::read(texts, {}, Seconds{3000})->incarnation(), made_up);
}

}  // namespace
}  // namespace harpe::training
