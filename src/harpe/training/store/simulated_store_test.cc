// Faults and time in the simulated database: each fault has its documented effect, at the right
// moment, and reproducibly. The tests that run over both databases compare it with PostgreSQL.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harpe/base/scheduler_testing.h"
#include "harpe/training/store/simulated_store_testing.h"
#include "harpe/training/store/store_testing.h"

namespace harpe::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = StoreCall::Kind;
using Line = StoreCall::Line;
using Outcome = StoreFault::Outcome;

/// The time a store waits for a response: 0.5 s plus the grace.
const Seconds kPatience = kImpatient.timeout + kStatementGrace;

class SimulatedStores : public ::testing::Test {
 protected:
  SimulatedStores() {
    database_.on_call = [this](const StoreCall& call) {
      ++calls_[call.kind];
      if (const auto next = next_.extract(call.kind)) return next.mapped();
      return on_call_ ? on_call_(call) : StoreFault{};
    };
  }

  Result<std::unique_ptr<Store>> open(const std::string& url, StoreProcess process = {}) {
    StoreOptions options = kImpatient;
    options.url = url;
    options.clock = &clock_;
    process.start_thread = [this](auto body) { scheduler_.start(std::move(body)); };
    return SimulatedStore::open(database_, options, std::move(process));
  }
  std::unique_ptr<Store> server(const std::string& url, StoreProcess process = {}) {
    return opened(open(url, std::move(process)));
  }
  static StoreProcess on(const std::string& machine) {
    return {.start_thread = nullptr, .dead = nullptr, .machine = machine};
  }

  /// The next call of this kind gets this fault; the others are executed at once.
  void let_next(Kind kind, const StoreFault& fault) { next_.insert_or_assign(kind, fault); }
  void sleep(Seconds time) { clock_.sleep_until(clock_.now() + time); }
  /// Returns how long `body` takes.
  template <class Body>
  double seconds_of(const Body& body) {
    const Instant begin = clock_.now();
    body();
    return (clock_.now() - begin).value;
  }
  std::vector<std::string> stored() {
    return database_.step([](const SimulatedTables& tables) {
      std::vector<std::string> ids;
      for (const StoredJob& job : tables.jobs()) ids.push_back(job.id);
      return ids;
    });
  }
  std::size_t servers() {
    return database_.step([](const SimulatedTables& tables) { return tables.servers().size(); });
  }

  std::function<StoreFault(const StoreCall&)> on_call_;
  std::map<Kind, int> calls_;  ///< number of calls
  std::map<Kind, StoreFault> next_;
  SimulatedDatabase database_;
  Scheduler scheduler_;
  SchedulerClock clock_{scheduler_};
};

TEST_F(SimulatedStores, EachOutcomeOfACallDoesWhatItSaysInItsTime) {
  struct Case {
    StoreFault fault;
    const char* error;  ///< empty: no error
    bool executed = false;
    Seconds takes;
    bool connected = false;  ///< still connected
  };
  const std::vector<Case> cases{
      {{Outcome::kDone, 0_s, 0_s}, "", true, 0_s, true},
      {{Outcome::kDone, 1_s, 0.25_s}, "", true, 1.25_s, true},
      {{Outcome::kRefused, 1_s, 1_s}, "unavailable: ", false, 0_s, false},
      {{Outcome::kLostBefore, 1_s, 1_s}, "no answer for 0.5 s", false, kPatience, false},
      {{Outcome::kLostAfter, 1_s, 0_s}, "no answer for 0.5 s", true, kPatience, false},
      {{Outcome::kLate, 1_s, 0_s}, "no answer for 0.5 s", true, kPatience, false},
      {{Outcome::kResetBefore, 1_s, 0.25_s}, "reset", false, 1.25_s, false},
      {{Outcome::kResetAfter, 1_s, 0.25_s}, "reset", true, 1.25_s, false},
      {{Outcome::kFull, 1_s, 0.25_s}, "io: ", false, 1.25_s, true},
      {{Outcome::kDone, 9_s, 0_s}, "no answer for 0.5 s", false, kPatience, false},
      {{Outcome::kDone, 1_s, 9_s}, "no answer for 0.5 s", true, kPatience, false},
      {{Outcome::kFull, 9_s, 0_s}, "no answer for 0.5 s", false, kPatience, false},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const Case& one = cases[i];
    const auto store = server("");
    const std::string id = "job " + std::to_string(i);
    let_next(Kind::kWrite, one.fault);
    std::string error;
    EXPECT_NEAR(seconds_of([&] { error = error_of(save(*store, {id, "state", 1, 1})); }),
                one.takes.value, 1e-6);
    EXPECT_THAT(error, HasSubstr(*one.error == '\0' ? "no error" : one.error));
    EXPECT_EQ(stored() == std::vector{id}, one.executed);
    calls_.clear();
    EXPECT_EQ(store->job(id)->has_value(), one.executed) << "it goes on";
    EXPECT_EQ(calls_[Kind::kConnect], one.connected ? 0 : 1);
    EXPECT_OK(store->remove(id));
  }
}

TEST_F(SimulatedStores, AFullDiskIsReadFrom) {
  const auto store = server("http://me");
  EXPECT_TRUE(*store->claim("a"));
  EXPECT_OK(save(*store, {"a", "state", 1, 1}));
  on_call_ = [](const StoreCall&) { return StoreFault{.outcome = Outcome::kFull}; };
  EXPECT_EQ((*store->job("a"))->state, "state");
  EXPECT_EQ(*store->owner("a"), (JobOwner{"http://me", true}));
  EXPECT_THAT(*store->ownerless(), IsEmpty());
  EXPECT_OK(store->check());
  for (const std::string& error :
       {error_of(save(*store, {"a", "state", 2, 1})), error_of(store->remove("a")),
        error_of(store->prune({})), error_of(store->claim("b")), error_of(store->release("a"))}) {
    EXPECT_THAT(error, HasSubstr("io: the database's disk is full"));
  }
  sleep(9_s);
  EXPECT_FALSE(store->lease().held) << "a beat is written, too";
  on_call_ = nullptr;
  sleep(1_s);
  EXPECT_TRUE(store->lease().held);
  EXPECT_EQ(store->lease().tenure, 1);
}

TEST_F(SimulatedStores, AStoreIsOpenedOnlyWhereItConnectsAndJoins) {
  for (const Kind kind : {Kind::kConnect, Kind::kOpen, Kind::kJoin, Kind::kLook}) {
    let_next(kind, {.outcome = Outcome::kRefused});
    EXPECT_THAT(error_of(open("http://me")), HasSubstr("unavailable: "));
    EXPECT_EQ(servers(), 0U);
  }
  let_next(Kind::kJoin, {.outcome = Outcome::kLostAfter});
  EXPECT_FALSE(open("http://me").ok());
  EXPECT_EQ(servers(), 1U) << "it cannot know that it joined";
  EXPECT_TRUE(open("http://me").ok());
}

TEST_F(SimulatedStores, ADatabaseThatRefusesIsAskedAgainOnceInAWhile) {
  const auto store = server("");
  database_.restart();
  on_call_ = [](const StoreCall&) { return StoreFault{.outcome = Outcome::kRefused}; };
  calls_.clear();
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(store->check().ok());
  EXPECT_EQ(calls_[Kind::kConnect], 1);
  sleep(kImpatient.reconnect_pause);
  EXPECT_FALSE(store->check().ok());
  EXPECT_EQ(calls_[Kind::kConnect], 2);
  on_call_ = nullptr;
  sleep(kImpatient.reconnect_pause);
  EXPECT_OK(store->check());
}

TEST_F(SimulatedStores, ARestartResetsWhatIsOnItsWayAndKeepsWhatArrived) {
  const auto store = server("");
  const auto save_over_restart = [&](const std::string& id, const StoreFault& fault) {
    let_next(Kind::kWrite, fault);
    scheduler_.start([this] {
      sleep(1_s);
      database_.restart();
    });
    EXPECT_THAT(error_of(save(*store, {id, "state", 1, 1})), HasSubstr("unavailable: "));
  };
  save_over_restart("not there yet", {.before = 2_s});
  EXPECT_THAT(stored(), IsEmpty());
  save_over_restart("there", {.before = 0.5_s, .after = 1_s});
  EXPECT_THAT(stored(), ElementsAre("there"));
  EXPECT_OK(store->check());
}

TEST_F(SimulatedStores, CallsOfOneStoreWaitForEachOtherInTheirOrderAndTheLeaseForNone) {
  const auto store = server("http://me");
  on_call_ = [](const StoreCall& call) {
    return call.line == Line::kCalls ? StoreFault{.before = 1_s, .after = 1_s} : StoreFault{};
  };
  std::vector<int> order;
  for (int i = 0; i < 5; ++i) {
    scheduler_.start([&, i] {
      EXPECT_OK(save(*store, {"job " + std::to_string(i), "state", 1, 1}));
      order.push_back(i);
    });
  }
  for (int i = 0; i < 10; ++i) {
    sleep(0.99_s);
    EXPECT_TRUE(store->lease().held);
    EXPECT_LE(order.size(), static_cast<std::size_t>((i + 1) / 2));
  }
  sleep(0.2_s);
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(SimulatedStores, OfTwoThatClaimAtOnceOneGetsTheJob) {
  const auto first = server("http://first"), second = server("http://second");
  // Both read that the job has no owner. The change by the first server is slow.
  on_call_ = [](const StoreCall& call) {
    const bool slow = call.kind == Kind::kClaim && call.url == "http://first";
    return StoreFault{.before = slow ? 1_s : 0.1_s};
  };
  std::optional<JobClaim> of_second;
  scheduler_.start([&] { of_second = *second->claim("a"); });
  EXPECT_EQ(*first->claim("a"), std::nullopt);
  ASSERT_TRUE(of_second);
  EXPECT_EQ(of_second->epoch, 1);
  EXPECT_EQ(*first->owner("a"), (JobOwner{"http://second", false}));
}

TEST_F(SimulatedStores, ALateChangeIsMadeWhenItArrivesAndNeverWhereTheDatabaseIsRestarted) {
  const auto store = server("http://me");
  EXPECT_TRUE(*store->claim("a"));
  const auto owner = [this] {
    return database_.step([](const SimulatedTables& tables) { return tables.owner("a")->server; });
  };
  const std::string me = owner();
  for (const bool restarted : {true, false}) {
    let_next(Kind::kRelease, {.outcome = Outcome::kLate});
    EXPECT_NEAR(
        seconds_of([&] { EXPECT_THAT(error_of(store->release("a")), HasSubstr("no answer")); }),
        kPatience.value, 1e-6);
    EXPECT_EQ(owner(), me);
    if (restarted) database_.restart();
    database_.execute_late();
    EXPECT_EQ(owner(), restarted ? me : "");
    EXPECT_TRUE(store->check().ok() || restarted);
  }
}

TEST_F(SimulatedStores, AServerThatIsCutOffHoldsItsLeaseForItsTimeAndLosesItsJobsAfterIt) {
  const auto cut_off = server("http://cut-off"), other = server("http://other");
  const std::int64_t epoch = (*cut_off->claim("a"))->epoch;
  sleep(3_s);
  on_call_ = [](const StoreCall& call) {
    return StoreFault{.outcome =
                          call.url == "http://cut-off" ? Outcome::kLostBefore : Outcome::kDone};
  };
  const Instant cut = clock_.now();
  std::optional<double> held_for, free_after;
  while (!free_after) {
    const bool claimed = other->claim("a")->has_value();
    const double passed = (clock_.now() - cut).value;
    ASSERT_FALSE(claimed && cut_off->lease().held);
    if (!cut_off->lease().held && !held_for) held_for = passed;
    if (claimed) free_after = passed;
    ASSERT_LT(passed, 30);
    sleep(0.1_s);
  }
  // The last beat was sent within 2 s before the cut, and others look every 2 s.
  EXPECT_GT(*held_for, 9 - 2.01);
  EXPECT_LT(*held_for, 9.11);
  EXPECT_GT(*free_after, 11 - 2.01);
  EXPECT_LT(*free_after, 11 + 2.11);
  EXPECT_EQ(cut_off->lease().tenure, 1U) << "it cannot know";
  on_call_ = nullptr;
  sleep(10_s);
  EXPECT_TRUE(cut_off->lease().held);
  EXPECT_EQ(cut_off->lease().tenure, 2U);
  EXPECT_THAT(error_of(save(*cut_off, {"a", "state", 1, 1})), HasSubstr("conflict: "));
  EXPECT_FALSE(*cut_off->claim("a"));
  EXPECT_EQ((*other->claim("a"))->epoch, epoch + 1);
}

TEST_F(SimulatedStores, AServerThatBeatsWhileItIsBeingRemovedStays) {
  bool cut = true;
  const auto first = server("http://first"), second = server("http://second");
  EXPECT_TRUE(*first->claim("a"));
  on_call_ = [&cut](const StoreCall& call) {
    StoreFault fault;
    if (call.line == Line::kLease && call.url == "http://first" && cut) {
      fault.outcome = Outcome::kLostBefore;
    }
    if (call.kind == Kind::kRemoveServer) {
      cut = false;
      fault.before = 2.4_s;
    }
    return fault;
  };
  while (cut) sleep(0.1_s);
  EXPECT_FALSE(first->lease().held);
  sleep(10_s);
  EXPECT_TRUE(first->lease().held);
  EXPECT_EQ(first->lease().tenure, 1U);
  EXPECT_EQ(*second->owner("a"), (JobOwner{"http://first", false}));
}

TEST_F(SimulatedStores, AKilledServerDoesNothingMoreAndItsRowStays) {
  bool dead = false;
  auto killed =
      server("http://killed",
             {.start_thread = nullptr, .dead = [&dead] { return dead; }, .machine = "machine"});
  const auto beside = server("http://beside", on("machine")),
             far = server("http://far", on("another machine"));
  EXPECT_TRUE(*killed->claim("a"));
  Heard heard;
  EXPECT_OK(killed->listen(heard.listener()));
  sleep(1_s);
  // One call is in progress, and one waits for it.
  on_call_ = [](const StoreCall& call) {
    return StoreFault{.before = call.kind == Kind::kWrite ? 1_s : 0_s};
  };
  int ended = 0;
  for (int i = 0; i < 2; ++i) {
    scheduler_.start([&] {
      EXPECT_THAT(error_of(save(*killed, {"a", "state", 1, 1})), HasSubstr("killed"));
      ++ended;
    });
  }
  sleep(0.5_s);
  dead = true;
  on_call_ = [](const StoreCall& call) {
    EXPECT_NE(call.url, "http://killed");
    return StoreFault{};
  };
  EXPECT_EQ(seconds_of([&] {
              EXPECT_THAT(error_of(killed->jobs()), HasSubstr("killed"));
              EXPECT_FALSE(killed->claim("a").ok());
              EXPECT_FALSE(killed->notify("text").ok());
              EXPECT_FALSE(killed->listen(nullptr).ok());
              EXPECT_FALSE(killed->lease().held);
            }),
            0);
  EXPECT_OK(far->notify("not heard"));
  sleep(3_s);
  EXPECT_EQ(ended, 2);
  EXPECT_THAT(stored(), IsEmpty());
  EXPECT_THAT(texts_of(heard.wait_for(1)), ElementsAre("look again"));
  killed.reset();
  EXPECT_EQ(servers(), 3U);
  // Checks which server may claim the job, and when.
  EXPECT_FALSE(*beside->claim("a")) << "it may live";
  database_.process_ended("http://killed");
  EXPECT_FALSE(*far->claim("a")) << "it cannot look there";
  EXPECT_EQ((*beside->claim("a"))->epoch, 2);
}

TEST_F(SimulatedStores, NoticesArriveInTheirOrderHoweverLongEachTakes) {
  std::vector<Seconds> delays{2_s, 0.5_s, 3_s};
  const auto speaker = server(""), store = server("http://me");
  Heard heard;
  EXPECT_OK(store->listen(heard.listener()));
  sleep(1_s);
  on_call_ = [&delays](const StoreCall& call) {
    if (call.kind != Kind::kNotification) return StoreFault{};
    const StoreFault fault{.before = delays.front()};
    delays.erase(delays.begin());
    return fault;
  };
  EXPECT_OK(speaker->write({.jobs = {}, .events = {}, .notifications = {"one", "two", "three"}}));
  sleep(1.9_s);
  EXPECT_THAT(texts_of(heard.wait_for(1)), ElementsAre("look again"));
  sleep(0.2_s);
  EXPECT_THAT(texts_of(heard.wait_for(3)), ElementsAre("look again", "one", "two"));
  sleep(1_s);
  EXPECT_THAT(texts_of(heard.wait_for(4)), ElementsAre("look again", "one", "two", "three"));
}

TEST_F(SimulatedStores, AListenerThatLostItsConnectionLooksAgain) {
  const auto store = server("");
  Heard heard;
  EXPECT_OK(store->listen(heard.listener()));
  sleep(1_s);
  database_.restart();
  EXPECT_OK(store->notify("no listener"));
  sleep(0.1_s);
  EXPECT_THAT(texts_of(heard.wait_for(2)), ElementsAre("look again", "look again"));
  // The connection is lost with the notification.
  let_next(Kind::kNotification, {.outcome = Outcome::kResetBefore});
  EXPECT_OK(store->notify("lost"));
  sleep(0.1_s);
  EXPECT_THAT(texts_of(heard.wait_for(3)), ElementsAre("look again", "look again", "look again"));
  // Lost silently: detected when nothing has arrived over the connection for a while.
  let_next(Kind::kNotification, {.outcome = Outcome::kLostBefore});
  EXPECT_OK(store->notify("lost"));
  sleep(1_s);
  EXPECT_OK(store->notify("lost as well"));
  sleep(kListenerProbe - 1.1_s);
  EXPECT_EQ(heard.wait_for(3).size(), 3U);
  sleep(kPatience + 0.5_s);
  EXPECT_OK(store->notify("heard"));
  sleep(0.1_s);
  const auto texts = texts_of(heard.wait_for(5));
  EXPECT_EQ(texts.size(), 5U);
  EXPECT_EQ(texts[3], "look again");
  EXPECT_EQ(texts.back(), "heard");
}

TEST_F(SimulatedStores, AListenerIsNotCalledOnceItIsGoneAndMaySleep) {
  auto store = server("");
  int begun = 0, ended = 0;
  EXPECT_OK(store->listen([&](const StoreNotification&) {
    ++begun;
    sleep(5_s);
    ++ended;
  }));
  sleep(1_s);
  EXPECT_EQ(begun, 1);
  EXPECT_OK(store->notify("waits"));
  EXPECT_OK(store->listen(nullptr));
  EXPECT_EQ(ended, 1) << "it waits for what runs";
  sleep(10_s);
  EXPECT_EQ(begun, 1);
}

}  // namespace
}  // namespace harpe::training
