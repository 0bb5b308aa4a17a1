// Tests of several servers over one database, run over a real PostgreSQL and over the model that
// simulations use.

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "harpe/training/store/shared_database_testing.h"
#include "harpe/training/store/store_testing.h"

namespace harpe::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SharedStore : public ::testing::TestWithParam<std::string> {
 protected:
  SharedStore() {
    if (GetParam() == "postgresql") {
      database_ = std::make_unique<SharedPostgres>();
    } else {
      database_ = std::make_unique<SharedSimulation>();
    }
  }

  std::unique_ptr<Store> another() const { return database_->open(kImpatient); }
  /// Opens a store that may own jobs.
  std::unique_ptr<Store> server(const std::string& url, const LeaseTimes& lease = {}) const {
    return database_->open(server_options(url, lease));
  }

  std::unique_ptr<SharedDatabase> database_;
};

INSTANTIATE_TEST_SUITE_P(Over, SharedStore, ::testing::Values("postgresql", "simulated"),
                         [](const auto& over) { return over.param; });

TEST_P(SharedStore, AJobHasOneOwnerAndEveryServerSeesWho) {
  const auto first = server("http://first"), second = server("http://second");
  EXPECT_TRUE(*first->claim("a"));
  EXPECT_FALSE(*second->claim("a"));
  EXPECT_TRUE(*second->claim("b"));
  EXPECT_EQ(*first->owner("a"), own("http://first"));
  EXPECT_EQ(*second->owner("a"), others("http://first"));
  for (const auto& store : {first.get(), second.get()}) {
    EXPECT_EQ(*store->owners(),
              (std::map<std::string, std::string>{{"a", "http://first"}, {"b", "http://second"}}));
  }
  EXPECT_OK(second->release("a"));  // it does not own the job
  EXPECT_EQ(*second->owner("a"), others("http://first"));
  EXPECT_OK(first->release("a"));
  EXPECT_TRUE(*second->claim("a"));
  EXPECT_EQ(*first->owner("a"), others("http://second"));
  EXPECT_FALSE(another()->claim("c").ok()) << "no server could reach it";
}

TEST_P(SharedStore, OnlyTheOwnerChangesAJobAndOnlyByItsLastClaim) {
  const auto first = server("http://first"), second = server("http://second");
  const auto before = *first->claim("a");
  EXPECT_OK(save(*first, {"a", "first's", 1, 1}));
  EXPECT_THAT(error_of(save(*second, {"a", "second's", 2, 1})), HasSubstr("conflict: "));
  EXPECT_THAT(error_of(append(*second, {0, 1, "a", "kind", "text"})), HasSubstr("conflict: "));
  EXPECT_THAT(error_of(second->remove("a")), HasSubstr("conflict: "));
  const auto refused = second->write(
      {.jobs = {{{"a", "second's", 2, 1}, std::nullopt}, {{"b", "second's", 2, 1}, std::nullopt}},
       .events = {},
       .notifications = {}});
  ASSERT_TRUE(refused.ok());
  EXPECT_THAT(*refused, ElementsAre("a"));
  EXPECT_EQ((*first->job("a"))->state, "first's");
  EXPECT_EQ((*first->job("b"))->state, "second's");
  EXPECT_EQ(*first->claim("a"), before) << "again";
  // Writes by a claim that was released are refused, too.
  EXPECT_OK(first->release("a"));
  const auto after = *first->claim("a");
  EXPECT_EQ(after->epoch, before->epoch + 1);
  const auto write_by = [&](std::int64_t epoch, const char* state) {
    return *first->write({.jobs = {{{"a", state, 2, 1}, std::nullopt}},
                          .events = {},
                          .notifications = {},
                          .epochs = {{"a", epoch}}});
  };
  EXPECT_THAT(write_by(before->epoch, "old"), ElementsAre("a"));
  EXPECT_THAT(write_by(after->epoch, "new"), IsEmpty());
  EXPECT_THAT(error_of(first->remove("a", before->epoch)), HasSubstr("conflict: "));
  EXPECT_OK(first->remove("a", after->epoch));
  EXPECT_THAT(write_by(after->epoch, "from the dead"), ElementsAre("a"));
}

TEST_P(SharedStore, AJobThatWasRemovedIsClaimedByAHigherEpochThanBefore) {
  const auto first = server("http://first"), second = server("http://second");
  const auto before = *first->claim("a");
  EXPECT_OK(save(*first, {"a", "first", 1, 1}));
  EXPECT_OK(first->remove("a", before->epoch));
  const auto after = *first->claim("a");
  EXPECT_GT(after->epoch, before->epoch);
  // Writes to the removed job are not applied to the new job of the same name.
  EXPECT_THAT(*first->write({.jobs = {{{"a", "of the dead", 2, 1}, std::nullopt}},
                             .events = {},
                             .notifications = {},
                             .epochs = {{"a", before->epoch}}}),
              ElementsAre("a"));
  EXPECT_OK(first->remove("a"));
  EXPECT_GT((*second->claim("a"))->epoch, after->epoch);
}

TEST_P(SharedStore, PartsSummariesAndEventsAreTheOwnersToo) {
  const auto first = server("http://first"), second = server("http://second");
  const auto mine = *first->claim("a");
  const JobSummary summary{"a", "first's", 5, 7};
  const StoredEvent event{0, 1, "a", "kind", "text"};
  EXPECT_THAT(*first->write({.jobs = {{.job = {"a", "first's", 1, 1},
                                       .plans = std::nullopt,
                                       .parts = {{"ranks 0", "first's"}},
                                       .summary = summary}},
                             .events = {event},
                             .notifications = {},
                             .epochs = {{"a", mine->epoch}}}),
              IsEmpty());
  EXPECT_THAT(*second->write({.jobs = {{.job = {"a", "second's", 2, 1},
                                        .plans = std::nullopt,
                                        .parts = {{"ranks 0", "second's"}}}},
                              .events = {},
                              .notifications = {}}),
              ElementsAre("a"));
  // Only the owner may report the end of a job and prune its old events.
  EXPECT_THAT(*second->write(
                  {.jobs = {}, .events = {}, .notifications = {}, .summaries = {{"a", "", 9, 9}}}),
              ElementsAre("a"));
  EXPECT_EQ(*second->prune({.since = 100}), 0);
  EXPECT_EQ(*second->prune({.since = 0, .most_per_job = 0, .jobs = std::vector<std::string>{"a"}}),
            0);
  EXPECT_EQ(*first->summary("a"), summary);
  EXPECT_EQ((*first->parts("a"))["ranks 0"], "first's");
  EXPECT_EQ(*first->prune({.since = 100}), 1);
  // A summary by a claim that is over is refused, too.
  EXPECT_OK(first->release("a"));
  EXPECT_TRUE(*first->claim("a"));
  EXPECT_THAT(*first->write({.jobs = {},
                             .events = {},
                             .notifications = {},
                             .summaries = {{"a", "", 9, 9}},
                             .epochs = {{"a", mine->epoch}}}),
              ElementsAre("a"));
}

TEST_P(SharedStore, AJobIsFreeAtOnceWhenItsOwnerIsKilledOnThisMachine) {
  const auto owner = database_->start_owner(server_options("http://killed"));
  const auto store = server("http://heir");
  EXPECT_FALSE(*store->claim("a"));
  EXPECT_EQ(*store->owner("a"), others("http://killed"));
  owner->kill();
  EXPECT_EQ(*store->owner("a"), std::nullopt);
  EXPECT_THAT(error_of(save(*store, {"a", "not claimed", 2, 1})), HasSubstr("conflict: "));
  EXPECT_TRUE(*store->claim("a"));
  EXPECT_EQ((*store->job("a"))->state, "saved");
  EXPECT_OK(save(*store, {"a", "inherited", 2, 1}));
}

TEST_P(SharedStore, AJobIsFreeAtOnceWhenItsOwnerEndsAsItShould) {
  const auto owner = database_->start_owner(server_options("http://first"));
  const auto store = server("http://heir");
  EXPECT_FALSE(*store->claim("a"));
  owner->end();
  EXPECT_TRUE(*store->claim("a"));
  EXPECT_EQ(database_->servers(), 1);
}

TEST_P(SharedStore, ServersWhoseNumberIsNotKnownHereAreGivenTheirTime) {
  const auto store = server("http://heir");
  const std::int64_t epoch = database_->add_lost_server();
  EXPECT_FALSE(*store->claim("a"));
  EXPECT_EQ(*store->owner("a"), others("http://lost"));
  // Any server may claim the jobs of a server that has given up.
  database_->remove_lost_server();
  EXPECT_EQ(*store->owner("a"), std::nullopt);
  EXPECT_EQ((*store->claim("a"))->epoch, epoch + 1);
}

TEST_P(SharedStore, AChangeIsAnnouncedToAllServersOnceItIsWritten) {
  const auto first = another(), second = another();
  Heard by_first, by_second;
  EXPECT_OK(first->listen(by_first.listener()));
  EXPECT_OK(second->listen(by_second.listener()));
  by_first.wait_for(1), by_second.wait_for(1);
  for (int i = 1; i <= 50; ++i) {
    EXPECT_OK(first->write({.jobs = {{{"a", std::to_string(i), i, 1}, std::nullopt}},
                            .events = {},
                            .notifications = {"a " + std::to_string(i)}}));
  }
  const auto heard = by_second.wait_for(51);
  ASSERT_THAT(heard, SizeIs(51));
  EXPECT_EQ(heard[0].kind, StoreNotification::Kind::kLookAgain);
  for (std::size_t i = 1; i <= 50; ++i) {
    EXPECT_EQ(heard[i].text, "a " + std::to_string(i));
    EXPECT_FALSE(heard[i].own);
  }
  EXPECT_EQ((*second->job("a"))->revision, 50);
  EXPECT_TRUE(by_first.wait_for(51).back().own);
}

TEST_P(SharedStore, ADatabaseThatGoesAwayForAWhileIsUnavailableAndThenGoesOn) {
  const auto store = server("http://me");
  Heard heard;
  EXPECT_OK(store->listen(heard.listener()));
  heard.wait_for(1);
  EXPECT_TRUE(*store->claim("a"));
  EXPECT_OK(save(*store, {"a", "before", 1, 1}, "plans"));
  database_->stop();
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(error_of(save(*store, {"a", "while", 2, 1})), HasSubstr("unavailable: "));
    EXPECT_THAT(error_of(store->jobs()), HasSubstr("unavailable: "));
    EXPECT_THAT(error_of(store->claim("b")), HasSubstr("unavailable: "));
    EXPECT_FALSE(store->check().ok());
  }
  EXPECT_TRUE(store->lease().held) << "it was away for less than a lease";
  database_->start();
  EXPECT_TRUE(eventually([&] { return store->check().ok(); }));
  EXPECT_EQ((*store->job("a"))->state, "before");
  EXPECT_EQ(*store->plans("a"), "plans");
  EXPECT_EQ(*store->owner("a"), own("http://me"));
  EXPECT_OK(save(*store, {"a", "while", 2, 1}));
  EXPECT_FALSE(*server("http://other")->claim("a"));
  // Notifications in the meantime are lost, and the listener knows this.
  EXPECT_THAT(texts_of(heard.wait_for(2)), ElementsAre("look again", "look again"));
  EXPECT_OK(store->notify("after"));
  EXPECT_EQ(heard.wait_for(3).back().text, "after");
}

TEST_P(SharedStore, ConnectionsThatEndCostNoJobWhoeverIsFasterToConnectAgain) {
  const auto first = server("http://first"), second = server("http://second");
  EXPECT_TRUE(*first->claim("a"));
  database_->end_all_connections();
  EXPECT_FALSE(*second->claim("a"));
  EXPECT_OK(save(*first, {"a", "state", 1, 1}));
  EXPECT_EQ(*second->owner("a"), others("http://first"));
}

TEST_P(SharedStore, AServerThatEndsGivesItsJobsUpAlsoWhereItsConnectionsHadEnded) {
  auto first = server("http://first");
  const auto second = server("http://second");
  EXPECT_TRUE(*first->claim("a"));
  database_->end_all_connections();
  first.reset();
  EXPECT_TRUE(*second->claim("a"));
}

TEST_P(SharedStore, AServersLostConnectionCostsNoJobAndHoldsNothingUp) {
  const auto store = database_->open_afar(server_options("http://me"));
  EXPECT_TRUE(*store->claim("a"));
  database_->break_connections();
  // The database does not notice: it still sees the old connections.
  EXPECT_TRUE(eventually([&] { return store->check().ok(); }));
  EXPECT_OK(save(*store, {"a", "state", 1, 1}));
  EXPECT_EQ(*store->owner("a"), own("http://me"));
  EXPECT_TRUE(*store->claim("a"));
  EXPECT_FALSE(*server("http://other")->claim("a"));
}

TEST_P(SharedStore, AServerWithoutItsDatabaseHoldsNoLeaseBeforeAnotherMayHaveItsJobs) {
  const LeaseTimes brief{.lease = 1_s, .beat = 0.1_s, .margin = 0.1_s};
  const auto cut_off = database_->open_afar(server_options("http://cut-off", brief));
  const auto other = server("http://other", brief);
  EXPECT_TRUE(*cut_off->claim("a"));
  EXPECT_TRUE(*cut_off->claim("b"));
  database_->let_through(false);
  // The lease is checked after the claim: if checked before, it could end in between.
  const auto claimed_while_held = [&](const std::string& job) {
    return other->claim(job)->has_value() && cut_off->lease().held;
  };
  bool taken = false;
  EXPECT_TRUE(eventually([&] {
    EXPECT_FALSE(claimed_while_held("a"));
    taken = *other->owner("a") == own("http://other");
    return taken;
  }));
  EXPECT_EQ(cut_off->lease().tenure, 1) << "it cannot know";
  database_->let_through(true);
  EXPECT_TRUE(eventually([&] { return cut_off->lease().held; }));
  EXPECT_EQ(cut_off->lease().tenure, 2) << "what it had is lost";
  EXPECT_EQ((*cut_off->claim("b"))->epoch, 2) << "no other has taken it";
  EXPECT_OK(save(*cut_off, {"b", "state", 1, 1}));
  EXPECT_FALSE(*cut_off->claim("a"));
}

TEST_P(SharedStore, ARequestThatArrivesLateTakesNoJobFromWhoHasClaimedItAgain) {
  const auto afar = database_->open_afar(server_options("http://afar"));
  const auto other = server("http://other");
  const auto before = *afar->claim("a");
  database_->hold_back();
  EXPECT_THAT(error_of(afar->release("a")), HasSubstr("unavailable: "));
  EXPECT_TRUE(eventually([&] { return afar->check().ok(); })) << "over another connection";
  const auto after = *afar->claim("a");
  EXPECT_GT(after->epoch, before->epoch);
  database_->deliver();
  EXPECT_EQ(*other->claim("a"), std::nullopt);
  EXPECT_TRUE(afar->lease().held);
  EXPECT_EQ(*afar->claim("a"), after);
}

TEST_P(SharedStore, AServerThatNoOtherHasSeenGoKeepsItsJobsHoweverLongItWasCutOff) {
  const LeaseTimes brief{.lease = 0.5_s, .beat = 0.1_s, .margin = 0.1_s};
  const auto store = database_->open_afar(server_options("http://me", brief));
  EXPECT_TRUE(*store->claim("a"));
  database_->let_through(false);
  EXPECT_TRUE(eventually([&] { return !store->lease().held; }));
  database_->let_through(true);
  EXPECT_TRUE(eventually([&] { return store->lease().held; }));
  EXPECT_EQ(store->lease().tenure, 1);
  EXPECT_OK(save(*store, {"a", "state", 1, 1}));
}

}  // namespace
}  // namespace harpe::training
