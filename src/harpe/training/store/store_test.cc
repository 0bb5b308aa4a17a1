// Behaviour of every store, tested over SQLite, a real PostgreSQL, and the model of it that
// simulations use. Simulations may rely only on the behaviour tested here.

#include "harpe/training/store/store.h"

#include <array>
#include <limits>
#include <random>
#include <set>
#include <thread>

#include "harpe/base/text.h"
#include "harpe/training/store/checks.h"
#include "harpe/training/store/postgres_session.h"
#include "harpe/training/store/postgres_testing.h"
#include "harpe/training/store/simulated_store_testing.h"
#include "harpe/training/store/sql_store.h"
#include "harpe/training/store/sqlite_database.h"
#include "harpe/training/store/store_testing.h"

namespace harpe::training {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class AnyStore : public ::testing::TestWithParam<std::string> {
 protected:
  AnyStore() {
    if (GetParam() == "sqlite") url_ = "sqlite:" + (directory_ / "jobs.db").string();
    if (GetParam() == "postgresql") {
      url_ = PostgresServer::shared().url(PostgresServer::shared().new_database());
    }
    reopen();
  }

  /// Closes the store and opens it, as a server that restarts.
  void reopen() {
    store_.reset();
    StoreOptions options{.url = "http://me"};
    if (GetParam() != "simulated") {
      store_ = opened(url_, options);
      return;
    }
    options.lease.beat = 0.02_s;  // its thread ends when it next wakes up
    store_ = opened(SimulatedStore::open(simulated_, options, {.start_thread = [this](auto body) {
                                           threads_.start(std::move(body));
                                         }}));
  }

  std::vector<StoredEvent> events_of(const std::string& job) const {
    return *store_->events(job, 0, 1000);
  }

  TestDirectory directory_;
  std::string url_;  ///< empty: simulated
  SimulatedDatabase simulated_;
  JoinedThreads threads_;
  std::unique_ptr<Store> store_;
};

INSTANTIATE_TEST_SUITE_P(Over, AnyStore, ::testing::Values("sqlite", "postgresql", "simulated"),
                         [](const auto& over) { return over.param; });

/// Stores whose tables have versions.
class AnyTables : public AnyStore {
 protected:
  Result<std::unique_ptr<Store>> open_with(std::span<const Migration> steps) const {
    const StoreUrl url = *StoreUrl::parse(url_);
    return url.kind == StoreUrl::Kind::kSqlite ? open_sqlite_store(url.path, {}, steps)
                                               : open_postgres_store(url, {}, steps);
  }

  /// Creates the data of a killed server of the first version: a job, its plans and its owner.
  void make_first_version() const {
    const StoreUrl url = *StoreUrl::parse(url_);
    const Migration& first = migrations().front();
    if (url.kind == StoreUrl::Kind::kSqlite) {
      SqliteDatabase database(url.path, 5_s);
      EXPECT_OK(database.open());
      EXPECT_OK(database.run(first.sqlite));
      EXPECT_OK(database.run(
          "INSERT INTO job VALUES ('a', 'state', 1, 1); INSERT INTO plans VALUES ('a', 'plans');"
          "PRAGMA user_version = 1; PRAGMA application_id = 1215459429;"));
      return;
    }
    PostgresSession session(url, 20_s);
    EXPECT_OK(session.connect());
    EXPECT_OK(session.script(first.postgresql, 20_s));
    EXPECT_OK(session.script(
        "INSERT INTO harpe_job VALUES ('a', 'state', 1, 1);"
        "INSERT INTO harpe_plans VALUES ('a', 'plans');"
        "INSERT INTO harpe_owner (job, server, url, backend) VALUES ('a', 'x', 'http://x', 1);"
        "CREATE TABLE harpe_schema (version integer NOT NULL); INSERT INTO harpe_schema VALUES (1)",
        20_s));
  }
};

INSTANTIATE_TEST_SUITE_P(Over, AnyTables, ::testing::Values("sqlite", "postgresql"),
                         [](const auto& over) { return over.param; });

TEST_P(AnyStore, GivesBackWhatWasSavedByteForByte) {
  std::string all;  // every one-byte character that a text may contain, and some longer ones
  for (int c = 1; c < 128; ++c) all += static_cast<char>(c);
  all += "\u00fc\u2192\U0001f600";
  const std::vector<StoredJob> jobs{
      {"a", all, 1, 1234567890.123456},
      {"b'; DROP TABLE job; --", "", -5, 0.1},
      {"c", std::string(5'000'000, 'x'), std::numeric_limits<std::int64_t>::max(), 1e-300}};
  for (const StoredJob& job : jobs) EXPECT_OK(save(*store_, job, all));
  EXPECT_EQ(*store_->jobs(), jobs);
  reopen();
  EXPECT_EQ(*store_->jobs(), jobs);
  EXPECT_EQ(*store_->job("c"), jobs[2]);
  EXPECT_EQ(*store_->job("unknown"), std::nullopt);
  EXPECT_EQ(*store_->plans("a"), all);
}

TEST_P(AnyStore, KeepsTheNewestRevision) {
  EXPECT_OK(save(*store_, {"a", "seven", 7, 1}));
  EXPECT_THAT(error_of(save(*store_, {"a", "six", 6, 2})),
              HasSubstr("conflict: job a was changed"));
  EXPECT_THAT(error_of(save(*store_, {"a", "another seven", 7, 2})), HasSubstr("conflict"));
  EXPECT_EQ((*store_->job("a"))->state, "seven");
  EXPECT_OK(save(*store_, {"a", "seven", 7, 1}));  // again, as after a lost response
  EXPECT_OK(save(*store_, {"a", "eight", 8, 3}));
  EXPECT_EQ(**store_->job("a"), (StoredJob{"a", "eight", 8, 3}));
}

TEST_P(AnyStore, KeepsPlansUntilOthersAreSaved) {
  EXPECT_EQ(*store_->plans("a"), std::nullopt);
  EXPECT_OK(save(*store_, {"a", "1", 1, 1}, "plans of 1"));
  EXPECT_OK(save(*store_, {"a", "2", 2, 1}));
  EXPECT_EQ(*store_->plans("a"), "plans of 1");
  EXPECT_FALSE(save(*store_, {"a", "1", 1, 1}, "of an old revision").ok());
  EXPECT_OK(save(*store_, {"a", "3", 3, 1}, "plans of 3"));
  EXPECT_EQ(*store_->plans("a"), "plans of 3");
}

TEST_P(AnyStore, KeepsPartsSummariesAndTheClockAndResurrectsNothing) {
  EXPECT_FALSE(store_->clock()->has_value());
  const JobSummary summary{"a", "short", 5, std::nullopt};
  EXPECT_THAT(*store_->write({.jobs = {{.job = {"a", "1", 1, 1},
                                        .plans = std::nullopt,
                                        .parts = {{"one", "1"}, {"two", "2"}},
                                        .summary = summary}},
                              .events = {},
                              .notifications = {},
                              .clock = ClockMark{10, "boot", 3, 1000}}),
              IsEmpty());
  EXPECT_OK(save(*store_, {"b", "1", 1, 7}));
  EXPECT_THAT(*store_->write(
                  {.jobs = {{.job = {"a", "2", 2, 1},
                             .plans = std::nullopt,
                             .parts = {{"two", "3"}},
                             .is_there = true},
                            {.job = {"gone", "2", 2, 1}, .plans = std::nullopt, .is_there = true}},
                   .events = {},
                   .notifications = {},
                   .summaries = {{"gone", "", 1, 1}},
                   .clock = ClockMark{9, "earlier", 3, 1000}}),
              ElementsAre("gone"));
  reopen();
  EXPECT_EQ(*store_->parts("a"), (std::map<std::string, std::string>{{"one", "1"}, {"two", "3"}}));
  EXPECT_THAT(*store_->summaries(), ElementsAre(summary, JobSummary{"b", "", 7, std::nullopt}));
  EXPECT_FALSE((*store_->job("gone")).has_value());
  EXPECT_FALSE((*store_->summary("gone")).has_value());
  EXPECT_EQ(*store_->clock(), (ClockMark{10, "boot", 3, 1000}));
  EXPECT_OK(store_->remove("a"));
  EXPECT_THAT(*store_->parts("a"), IsEmpty());
  EXPECT_THAT(*store_->summaries(), SizeIs(1));
}

TEST_P(AnyStore, WritesManyChangesOfWhichOldOnesAreLeftOut) {
  EXPECT_OK(save(*store_, {"b", "nine", 9, 1}, "plans of nine"));
  StoreChanges changes;
  for (const char* id : {"a", "b", "c"}) {
    changes.jobs.push_back({{id, "two", 2, 5}, "plans of two"});
    changes.events.push_back({0, 5, id, "saved", "revision 2"});
  }
  changes.events.push_back({0, 5, "", "server", "saved three"});
  const auto refused = store_->write(changes);
  ASSERT_TRUE(refused.ok()) << refused.error().text();
  EXPECT_THAT(*refused, ElementsAre("b"));
  EXPECT_EQ((*store_->job("a"))->state, "two");
  EXPECT_EQ((*store_->job("b"))->state, "nine");
  EXPECT_EQ((*store_->job("c"))->state, "two");
  EXPECT_EQ(*store_->plans("b"), "plans of nine");
  EXPECT_THAT(*store_->events("a", 0, 10), SizeIs(1));
  EXPECT_THAT(*store_->events("b", 0, 10), IsEmpty());
  EXPECT_THAT(*store_->events("", 0, 10), SizeIs(1));
}

TEST_P(AnyStore, LeavesAJobThatItRefusesAsItWas) {
  EXPECT_OK(save(*store_, {"a", "nine", 9, 1}, "plans of nine"));
  const JobSummary before = **store_->summary("a");
  EXPECT_THAT(*store_->write({.jobs = {{{"a", "eight", 8, 1}, std::nullopt},
                                       {{"a", "ten", 10, 1}, "plans of ten"}},
                              .events = {},
                              .notifications = {},
                              .summaries = {{"a", "of eight", 7, 7}}}),
              ElementsAre("a"));
  EXPECT_EQ((*store_->job("a"))->state, "nine");
  EXPECT_EQ(*store_->plans("a"), "plans of nine");
  EXPECT_EQ(*store_->summary("a"), before);
}

TEST_P(AnyStore, RefusesATextThatADatabaseCouldNotGiveBackAndWritesNothingOfTheRest) {
  const std::vector<std::string> wrong{
      std::string("a\0b", 3), "\xff",     "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
      "\xf4\x90\x80\x80",     "\xe2\x82", "\x80"};
  for (const std::string& text : wrong) {
    StoreChanges changes;
    changes.jobs.push_back({{"good", "state", 1, 1}, std::nullopt});
    StoreChanges with_state = changes, with_plans = changes, with_event = changes,
                 with_notification = changes;
    with_state.jobs.push_back({{"bad", text, 1, 1}, std::nullopt});
    with_plans.jobs.push_back({{"bad", "", 1, 1}, text});
    with_event.events.push_back({0, 1, "good", "kind", text});
    with_notification.notifications.push_back(text);
    for (const StoreChanges& bad : {with_state, with_plans, with_event, with_notification}) {
      EXPECT_THAT(error_of(store_->write(bad)), HasSubstr("invalid_input")) << in_quotes(text);
    }
    EXPECT_FALSE(save(*store_, {text, "state", 1, 1}).ok());
    EXPECT_FALSE(store_->claim(text).ok());
    // It is not taken for another existing job, either.
    const std::vector<std::string> errors{
        error_of(store_->job(text)),
        error_of(store_->plans(text)),
        error_of(store_->parts(text)),
        error_of(store_->summary(text)),
        error_of(store_->remove(text)),
        error_of(store_->events(text, 0, 1)),
        error_of(store_->owner(text)),
        error_of(store_->prune({.jobs = std::vector{text}})),
        error_of(store_->write(
            {.jobs = {}, .events = {}, .notifications = {}, .clock = ClockMark{1, text, 1, 1}}))};
    EXPECT_THAT(errors, Each(HasSubstr("invalid_input: "))) << in_quotes(text);
  }
  EXPECT_FALSE(save(*store_, {"", "state", 1, 1}).ok());
  EXPECT_FALSE(save(*store_, {std::string(256, 'x'), "state", 1, 1}).ok());
  EXPECT_FALSE(save(*store_, {"a", "state", 1, std::numeric_limits<double>::quiet_NaN()}).ok());
  EXPECT_FALSE(append(*store_, {0, std::numeric_limits<double>::infinity(), "a", "", ""}).ok());
  const double none = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(error_of(store_->prune({.since = none})), HasSubstr("invalid_input: "));
  EXPECT_THAT(error_of(store_->prune({.most_at_once = -1})), HasSubstr("invalid_input: "));
  for (const ClockMark& mark :
       {ClockMark{none, "", 1, 1}, ClockMark{1, "", none, 1}, ClockMark{1, "", 1, none}}) {
    EXPECT_THAT(
        error_of(store_->write({.jobs = {}, .events = {}, .notifications = {}, .clock = mark})),
        HasSubstr("invalid_input: "));
  }
  EXPECT_THAT(*store_->jobs(), IsEmpty());
  EXPECT_THAT(*store_->events("good", 0, 10), IsEmpty());
  EXPECT_EQ(*store_->clock(), std::nullopt);
}

TEST_P(AnyStore, GivesEventsInTheirOrderFromWhereOneLeftOff) {
  for (int i = 1; i <= 5; ++i) {
    EXPECT_OK(append(*store_, {0, 100.5 - i, "a", "kind", "event " + std::to_string(i)}));
    EXPECT_OK(append(*store_, {0, 100.5 - i, "other", "kind", "not this"}));
  }
  const auto first = *store_->events("a", 0, 3);
  ASSERT_THAT(first, SizeIs(3));
  EXPECT_EQ(first[2].text, "event 3");
  EXPECT_EQ(first[2].at, 97.5);
  EXPECT_EQ(first[2].job, "a");
  EXPECT_EQ(first[2].kind, "kind");
  const auto rest = *store_->events("a", first[2].sequence, 100);
  ASSERT_THAT(rest, SizeIs(2));
  EXPECT_EQ(rest[1].text, "event 5");
  EXPECT_GT(rest[0].sequence, first[2].sequence);
  EXPECT_THAT(*store_->events("a", rest[1].sequence, 100), IsEmpty());
  EXPECT_THAT(*store_->events("a", 0, 0), IsEmpty());
  EXPECT_THAT(*store_->events("a", 0, -1), IsEmpty());
}

TEST_P(AnyStore, KeepsAnEventThatIsWrittenAgainOnce) {
  const StoredEvent event{0, 1234567890.25, "a", "straggler", "pipeline 1"};
  EXPECT_OK(append(*store_, event));
  EXPECT_OK(append(*store_, event));
  EXPECT_THAT(*store_->events("a", 0, 10), SizeIs(1));
  EXPECT_OK(append(*store_, {0, 1234567890.5, "a", "straggler", "pipeline 1"}));
  EXPECT_THAT(*store_->events("a", 0, 10), SizeIs(2));
}

TEST_P(AnyStore, PrunesOldEventsAndTooManyOfOneJob) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_OK(append(*store_, {0, 100.0 + i, "a", "", std::to_string(i)}));
    EXPECT_OK(append(*store_, {0, 100.0 + i, "b", "", std::to_string(i)}));
  }
  EXPECT_OK(append(*store_, {0, 109, "b", "", "10"}));
  const std::int64_t last = store_->events("b", 0, 100)->back().sequence;
  EXPECT_EQ(*store_->prune({.since = 104}), 8);
  EXPECT_THAT(*store_->events("a", 0, 100), SizeIs(6));
  EXPECT_EQ(*store_->prune({.since = 0, .most_per_job = 6}), 1);
  const auto kept = *store_->events("b", 0, 100);
  ASSERT_THAT(kept, SizeIs(6));
  EXPECT_EQ(kept.front().text, "5");
  EXPECT_EQ(kept.back().text, "10");
  EXPECT_EQ(*store_->prune({.since = 0, .most_per_job = 0}), 12);
  reopen();
  // A reader that knows the last number must not take a new event for one it has seen.
  EXPECT_OK(append(*store_, {0, 200, "b", "", "after"}));
  EXPECT_GT(store_->events("b", 0, 100)->front().sequence, last);
}

TEST_P(AnyStore, RemovesAJobWithAllThatBelongsToIt) {
  EXPECT_OK(save(*store_, {"a", "state", 5, 1}, "plans"));
  EXPECT_OK(save(*store_, {"b", "state", 5, 1}, "plans"));
  EXPECT_OK(append(*store_, {0, 1, "a", "", "text"}));
  EXPECT_TRUE(*store_->claim("a"));
  EXPECT_OK(store_->remove("a"));
  EXPECT_OK(store_->remove("a"));
  EXPECT_EQ(*store_->job("a"), std::nullopt);
  EXPECT_EQ(*store_->plans("a"), std::nullopt);
  EXPECT_THAT(*store_->events("a", 0, 10), IsEmpty());
  EXPECT_EQ(*store_->owner("a"), std::nullopt);
  EXPECT_THAT(*store_->jobs(), SizeIs(1));
  EXPECT_EQ(*store_->plans("b"), "plans");
  EXPECT_TRUE(*store_->claim("a"));
  EXPECT_OK(save(*store_, {"a", "anew", 1, 1}));
}

TEST_P(AnyStore, KnowsWhoOwnsAJob) {
  const std::optional<JobOwner> me = JobOwner{.url = "http://me", .own = true};
  EXPECT_EQ(*store_->owner("a"), std::nullopt);
  EXPECT_TRUE(*store_->claim("a"));
  EXPECT_TRUE(*store_->claim("b"));
  EXPECT_EQ(*store_->owner("a"), me);
  EXPECT_EQ(*store_->owners(),
            (std::map<std::string, std::string>{{"a", "http://me"}, {"b", "http://me"}}));
  EXPECT_OK(save(*store_, {"a", "state", 1, 1}));
  EXPECT_OK(save(*store_, {"c", "state", 1, 1}));
  EXPECT_THAT(*store_->ownerless(), ElementsAre("c"));
  EXPECT_OK(store_->release("a"));
  EXPECT_OK(store_->release("a"));
  EXPECT_THAT(*store_->ownerless(), ElementsAre("a", "c"));
  EXPECT_EQ(*store_->owner("a"), std::nullopt);
  EXPECT_TRUE(*store_->claim("a"));
  reopen();  // ownership ends with the store
  EXPECT_THAT(*store_->owners(), IsEmpty());
  EXPECT_THAT(*store_->ownerless(), ElementsAre("a", "c"));
  EXPECT_TRUE(*store_->claim("a"));
}

TEST_P(AnyStore, HoldsItsLeaseFromTheStartAndRaisesTheEpochOfAJobWithEveryServer) {
  EXPECT_TRUE(store_->lease().held);
  const auto before = *store_->claim("a");
  ASSERT_TRUE(before);
  EXPECT_EQ(before->tenure, store_->lease().tenure);
  EXPECT_GE((*store_->claim("a"))->epoch, before->epoch);
  EXPECT_OK(save(*store_, {"a", "state", 1, 1}));
  reopen();
  const auto after = *store_->claim("a");
  ASSERT_TRUE(after);
  EXPECT_GT(after->epoch, before->epoch);
}

TEST_P(AnyStore, TellsListenersWhatIsAnnouncedInItsOrder) {
  Heard heard;
  EXPECT_OK(store_->listen(heard.listener()));
  EXPECT_THAT(texts_of(heard.wait_for(1)), ElementsAre("look again"));
  const std::string longest(kLongestNotification, 'x');
  EXPECT_OK(store_->notify("one"));
  EXPECT_OK(store_->notify(longest));
  EXPECT_OK(store_->write({.jobs = {{{"a", "state", 1, 1}, std::nullopt}},
                           .events = {},
                           .notifications = {"two", "three"}}));
  EXPECT_FALSE(store_->notify(longest + "x").ok());
  EXPECT_FALSE(
      store_->write({.jobs = {}, .events = {}, .notifications = {"not this", longest + "x"}}).ok());
  EXPECT_OK(store_->notify("last"));
  const auto notifications = heard.wait_for(6);
  EXPECT_THAT(texts_of(notifications),
              ElementsAre("look again", "one", longest, "two", "three", "last"));
  EXPECT_TRUE(notifications.back().own);
}

TEST_P(AnyStore, HasOneListenerThatMayCallTheStore) {
  Heard before, after;
  EXPECT_OK(store_->listen(before.listener()));
  before.wait_for(1);
  std::vector<std::string> found;
  EXPECT_OK(store_->listen([&, listener = after.listener()](const StoreNotification& notification) {
    found.push_back(std::to_string(store_->jobs()->size()));
    listener(notification);
  }));
  after.wait_for(1);
  EXPECT_OK(store_->write(
      {.jobs = {{{"a", "state", 1, 1}, std::nullopt}}, .events = {}, .notifications = {"saved"}}));
  EXPECT_THAT(texts_of(after.wait_for(2)), ElementsAre("look again", "saved"));
  EXPECT_OK(store_->listen(nullptr));
  EXPECT_THAT(found, ElementsAre("0", "1"));
  EXPECT_OK(store_->notify("no listener"));
  EXPECT_THAT(texts_of(before.wait_for(1)), ElementsAre("look again"));
  EXPECT_THAT(after.wait_for(2), SizeIs(2));
}

TEST_P(AnyStore, SavesFromManyThreads) {
  constexpr int kThreads = 8, kSaves = 25;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      const std::string id = "job-" + std::to_string(t);
      for (int i = 1; i <= kSaves; ++i) {
        const std::string text = std::to_string(i);
        EXPECT_OK(store_->write({.jobs = {{{id, text, i, 1.0 * i}, text}},
                                 .events = {{0, 1.0 * i, id, "saved", text}},
                                 .notifications = {}}));
        EXPECT_EQ((*store_->job(id))->revision, i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(*store_->jobs(), SizeIs(kThreads));
  std::set<std::int64_t> sequences;
  for (int t = 0; t < kThreads; ++t) {
    const std::string id = "job-" + std::to_string(t);
    EXPECT_EQ(*store_->plans(id), std::to_string(kSaves));
    for (const StoredEvent& event : events_of(id)) sequences.insert(event.sequence);
  }
  EXPECT_THAT(sequences, SizeIs(kThreads * kSaves));
}

TEST_P(AnyStore, BehavesAsAMapDoesUnderRandomChanges) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const auto below = [&](int limit) {
    return std::uniform_int_distribution<int>(0, limit - 1)(random);
  };
  std::map<std::string, StoredJob> jobs;
  std::map<std::string, std::string> plans;
  std::map<std::string, std::vector<std::string>> events;
  const auto id_of = [&] { return "job " + std::to_string(below(4)); };
  for (int step = 0; step < 150; ++step) {
    const int what = below(12);
    if (what == 0) {
      const std::string id = id_of();
      EXPECT_OK(store_->remove(id));
      jobs.erase(id), plans.erase(id), events.erase(id);
    } else if (what == 1) {
      reopen();
    } else {
      StoreChanges changes;
      std::set<std::string> refused;
      for (int i = below(4); i > 0; --i) {
        const std::string id = id_of();
        const int revision = below(1 + step / 4), state = below(2);
        JobSave save{{id, std::to_string(state), revision, 1.0 * step}, std::nullopt};
        if (below(2) == 1) save.plans = std::to_string(step);
        changes.jobs.push_back(save);
        const auto had = jobs.find(id);
        const bool good = had == jobs.end() || had->second.revision < revision ||
                          (had->second.revision == revision && had->second.state == save.job.state);
        if (!good) {
          refused.insert(id);
        } else if (!refused.contains(id)) {
          jobs[id] = save.job;
          if (save.plans) plans[id] = *save.plans;
        } else {
          changes.jobs.pop_back();  // jobs after a refused one are left to the caller
        }
      }
      for (int i = below(3); i > 0; --i) {
        const std::string id = id_of();
        const std::string text = std::to_string(step) + " " + std::to_string(i);
        changes.events.push_back({0, 1.0 * step, id, "kind", text});
        if (!refused.contains(id)) events[id].push_back(text);
      }
      const auto left = store_->write(changes);
      ASSERT_TRUE(left.ok()) << left.error().text();
      EXPECT_EQ(std::set<std::string>(left->begin(), left->end()), refused) << "step " << step;
    }
    std::map<std::string, StoredJob> stored;
    const std::vector<StoredJob> found = *store_->jobs();
    for (const StoredJob& job : found) stored[job.id] = job;
    ASSERT_EQ(stored, jobs) << "step " << step;
    for (int i = 0; i < 4; ++i) {
      const std::string id = "job " + std::to_string(i);
      const auto had = plans.find(id);
      ASSERT_EQ(*store_->plans(id), had != plans.end() ? std::optional(had->second) : std::nullopt);
      std::vector<std::string> texts;
      for (const StoredEvent& event : events_of(id)) texts.push_back(event.text);
      ASSERT_EQ(texts, events[id]) << "step " << step;
    }
  }
}

constexpr Migration kFurther{"CREATE TABLE further (n INTEGER); INSERT INTO further VALUES (1);",
                             "CREATE TABLE further (n integer); INSERT INTO further VALUES (1);"};
constexpr Migration kWrong{"CREATE TABLE halfway (n INTEGER); INSERT INTO nowhere VALUES (1);",
                           "CREATE TABLE halfway (n integer); INSERT INTO nowhere VALUES (1);"};

TEST_P(AnyTables, BringsTablesUpToDateOnceAndKeepsWhatIsInThem) {
  EXPECT_OK(save(*store_, {"a", "state", 5, 1}, "plans"));
  store_.reset();
  std::vector<Migration> steps(migrations().begin(), migrations().end());
  steps.push_back(kFurther);
  for (int start = 0; start < 2; ++start) {  // the second start would fail if the step ran again
    const auto store = open_with(steps);
    ASSERT_TRUE(store.ok()) << store.error().text();
    EXPECT_EQ((*(*store)->job("a"))->state, "state");
  }
  const auto older = Store::open(url_);
  EXPECT_THAT(error_of(older), HasSubstr("was made by a newer Harpe: its tables have version " +
                                         std::to_string(steps.size())));
}

TEST_P(AnyTables, BringsTheTablesOfTheFirstVersionUpToDate) {
  store_.reset();
  // A new database, because the present one has all steps.
  if (GetParam() == "sqlite") {
    url_ = "sqlite:" + (directory_ / "old.db").string();
  } else {
    url_ = PostgresServer::shared().url(PostgresServer::shared().new_database());
  }
  make_first_version();
  store_ = opened(url_, {.url = "http://me"});
  EXPECT_EQ((*store_->job("a"))->state, "state");
  EXPECT_EQ(*store_->plans("a"), "plans");
  EXPECT_THAT(*store_->ownerless(), ElementsAre("a"));
  EXPECT_TRUE(*store_->claim("a"));
  EXPECT_OK(save(*store_, {"a", "newer", 2, 1}));
}

TEST_P(AnyTables, LeavesTheTablesAsTheyWereWhereAStepFails) {
  EXPECT_OK(save(*store_, {"a", "state", 5, 1}));
  store_.reset();
  std::vector<Migration> steps(migrations().begin(), migrations().end());
  steps.push_back(kFurther);
  steps.push_back(kWrong);
  EXPECT_THAT(error_of(open_with(steps)), HasSubstr("nowhere"));
  store_ = opened(url_);
  EXPECT_EQ((*store_->job("a"))->state, "state");
  store_.reset();
  steps.pop_back();
  EXPECT_TRUE(open_with(steps).ok());
}

TEST_P(AnyStore, SaysThatItAnswersAndWhatItIs) {
  EXPECT_OK(store_->check());
  const std::map<std::string, std::string> descriptions{
      {"sqlite", "SQLite /"},
      {"postgresql", "PostgreSQL postgresql://harpe@/test_"},
      {"simulated", "simulated database"}};
  EXPECT_THAT(store_->description(), HasSubstr(descriptions.at(GetParam())));
}

}  // namespace
}  // namespace harpe::training
