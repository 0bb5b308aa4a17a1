// Hosted objects other than training jobs: here a counter that one client at a time may raise.

#include "harpe/training/server/hosting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <nlohmann/json.hpp>

#include "harpe/base/test_directory_testing.h"
#include "harpe/training/server/job_registry.h"
#include "harpe/training/server/server_testing.h"
#include "harpe/training/store/store_testing.h"

namespace harpe::training {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kCounters = "test.counter/";

/// A counter whose client has a lease, which expires.
class Counter final : public Hosted {
 public:
  Counter(std::string given_id, Seconds now) : Hosted(std::move(given_id)), heard_(now) {}

  static Result<HostedPtr> read(Store& store, const StoredJob& stored, Seconds /*now*/) {
    const json state = json::parse(stored.state, nullptr, false);
    if (!state.contains("value")) return Error::invalid("a counter has a value");
    const auto parts = HARPE_TRY(store.parts(stored.id));
    auto counter = std::make_shared<Counter>(stored.id, Seconds{state["heard"].get<double>()});
    counter->value_ = state["value"];
    counter->holder_ = state["holder"];
    counter->until_ = Seconds{state["until"].get<double>()};
    counter->note_ = parts.at("note");
    counter->note_changed_ = false;
    counter->asleep_ = true;
    return HostedPtr(std::move(counter));
  }

  int value() const { return value_; }
  const std::string& holder() const { return holder_; }
  const std::string& note() const { return note_; }
  bool raise(const std::string& holder, Seconds now) {
    if (!holder_.empty() && holder_ != holder) return false;
    holder_ = holder;
    until_ = now + Seconds{10};
    heard_ = now;
    ++value_;
    effects_.save = effects_.changed = true;
    return true;
  }

  HostedTexts take_texts() override {
    HostedTexts texts{.state = json({{"format", std::string(kCounters) + "1"},
                                     {"value", value_},
                                     {"holder", holder_},
                                     {"until", until_.value},
                                     {"heard", heard_.value}})
                                   .dump()};
    if (std::exchange(note_changed_, false)) texts.parts["note"] = note_;
    return texts;
  }
  std::string summary_text() const override { return "\"value\":" + std::to_string(value_); }
  Seconds heard() const override { return heard_; }
  std::optional<Seconds> ended() const override { return std::nullopt; }
  std::size_t memory() const override { return 1000; }
  bool asleep() const override { return asleep_; }
  void go_on(Seconds now) override {
    asleep_ = false;
    if (!holder_.empty()) until_ = now + Seconds{10};
  }
  void hear(Seconds now) override { heard_ = now; }
  void tick(Seconds now) override {
    if (holder_.empty() || now < until_) return;
    effects_.events.push_back({"info", "the lease of " + holder_ + " has expired", now});
    effects_.save = true;
    holder_.clear();
  }
  HostedEffects take_effects(Seconds /*now*/) override { return std::exchange(effects_, {}); }
  void leave() override { has_left = true; }

  bool has_left = false;

 private:
  int value_ = 0;
  std::string holder_, note_ = "made for a test";
  bool note_changed_ = true, asleep_ = false;
  Seconds until_{}, heard_{};
  HostedEffects effects_{.save = true};
};
using CounterPtr = std::shared_ptr<Counter>;

/// A loop whose posted work waits until the test runs it.
class TestLoop final : public Loop {
 public:
  void post(std::function<void()> work) override { waiting_.push_back(std::move(work)); }
  void after(Seconds /*delay*/, std::function<void()> work) override { post(std::move(work)); }
  bool run_one() {
    if (waiting_.empty()) return false;
    const std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    work();
    return true;
  }

 private:
  std::deque<std::function<void()>> waiting_;
};

/// Workers whose work waits until the test runs it.
class TestWorkers final : public Workers {
 public:
  void run(const std::string& /*owner*/, std::function<void()> work, Size /*size*/) override {
    loop_.post(std::move(work));
  }
  void finish() override {
    while (loop_.run_one()) {
    }
  }
  std::size_t waiting(const std::string& /*owner*/) const override { return 0; }
  bool run_one() { return loop_.run_one(); }

 private:
  TestLoop loop_;
};

class HostingTest : public ::testing::Test {
 protected:
  HostingTest() { start(); }

  void start() {
    store_ = *Store::open("sqlite:" + (directory_ / "jobs.db").string());
    hosting_ = std::make_unique<Hosting>(
        loop_, clock_, store_.get(),
        Hosting::Options{
            .lifetimes = {.idle_after = Seconds{60}, .end_after = Seconds{3600}},
            .clocks = {.boot_time = [this] { return time_; },
                       .wall = [this] { return time_; },
                       .boot = "one"},
            .make_workers =
                [this](const Workers::Options& options) {
                  auto workers = std::make_unique<TestWorkers>();
                  (options.for_small > 0 ? readers_ : others_).push_back(workers.get());
                  return workers;
                }},
        [this](const std::string& line) { log_.push_back(line); });
    registry_ = std::make_unique<JobRegistry>(loop_, *hosting_, JobRegistry::Options{});
    hosting_->memory().restorer().add(kCounters, Counter::read);
    ASSERT_TRUE(hosting_->restore().ok());
  }
  void stop() {
    registry_.reset();
    hosting_.reset();
    store_.reset();
    readers_.clear();
    others_.clear();
  }
  ~HostingTest() override { stop(); }

  static bool run_one(const std::vector<TestWorkers*>& all) {
    return std::ranges::any_of(all, [](TestWorkers* workers) { return workers->run_one(); });
  }
  /// Runs all work until none is left.
  void settle() {
    while (loop_.run_one() || run_one(readers_) || run_one(others_)) {
    }
  }
  /// Runs all work except writes to the store.
  void read_only() {
    while (loop_.run_one() || run_one(readers_)) {
    }
  }
  void pass(Seconds time) {
    clock_.advance(time);
    time_ += time.value;
    hosting_->tick();
    settle();
  }

  CounterPtr host(const std::string& id, const std::string& client = {}) {
    auto counter = std::make_shared<Counter>(id, hosting_->time().now());
    counter->claim = **hosting_->claims().claim(id);
    counter->client = client;
    hosting_->jobs().add(counter);
    settle();
    return counter;
  }
  CounterPtr load(const std::string& id) {
    Result<HostedPtr> loaded = Error::invalid("nothing was answered");
    hosting_->memory().load(id, [&](const Result<HostedPtr>& hosted) { loaded = hosted; });
    settle();
    EXPECT_TRUE(loaded.ok()) << loaded.error().text();
    return std::dynamic_pointer_cast<Counter>(*loaded);
  }
  bool raise(const CounterPtr& counter, const std::string& client = "a client") {
    return hosting_->jobs().act(counter, [&](Seconds now) { return counter->raise(client, now); });
  }
  /// Returns the response that is sent when all data of the counter are stored.
  Status stored(const CounterPtr& counter) {
    Status answered = Error::invalid("nothing was answered");
    hosting_->saver().when_stored(counter, [&](const Status& status) { answered = status; });
    settle();
    return answered;
  }
  std::vector<std::string> listed() {
    std::vector<std::string> all;
    hosting_->activities().list(
        {}, 100, {Activity::kActive, Activity::kIdle}, {}, [&](const JobActivities::Listed& one) {
          all.push_back(one.summary.job + " " + one.summary.text + " " + name_of(one.activity) +
                        (one.hosted ? " here" : " stored"));
        });
    return all;
  }

  TestDirectory directory_;
  TestLoop loop_;
  ManualClock clock_;
  double time_ = 1e9;
  std::vector<std::string> log_;
  std::vector<TestWorkers*> readers_, others_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Hosting> hosting_;
  std::unique_ptr<JobRegistry> registry_;
};

TEST_F(HostingTest, RestoresAfterAStartWhatItSaidIsStored) {
  const CounterPtr counter = host("c");
  EXPECT_TRUE(raise(counter));
  EXPECT_TRUE(raise(counter));
  EXPECT_FALSE(raise(counter, "another client"));
  ASSERT_TRUE(stored(counter).ok());
  EXPECT_EQ(json::parse((*store_->job("c"))->state)["value"], 2);
  stop();
  start();
  EXPECT_EQ(hosting_->table().find("c"), nullptr);
  EXPECT_THAT(listed(), ElementsAre("c \"value\":2 active stored"));
  const CounterPtr again = load("c");
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->value(), 2);
  EXPECT_EQ(again->note(), "made for a test");
  EXPECT_TRUE(again->asleep());
  EXPECT_FALSE(raise(again, "another client"));
  EXPECT_FALSE(again->asleep());
  EXPECT_TRUE(raise(again));
  EXPECT_TRUE(stored(again).ok());
  EXPECT_THAT(listed(), ElementsAre("c \"value\":3 active here"));
}

TEST_F(HostingTest, WritesAtItsEndWhatIsNotStoredYet) {
  const CounterPtr counter = host("c");
  EXPECT_TRUE(raise(counter));
  stop();
  start();
  EXPECT_EQ(load("c")->value(), 1);
}

TEST_F(HostingTest, TicksWhatIsActiveAndKeepsItsEvents) {
  const CounterPtr counter = host("c");
  EXPECT_TRUE(raise(counter));
  pass(Seconds{9});
  EXPECT_EQ(counter->holder(), "a client");
  pass(Seconds{2});
  EXPECT_EQ(counter->holder(), "");
  std::vector<std::string> texts;
  hosting_->job_log().read(counter, 0, 10, [&](const Result<std::vector<LoggedEvent>>& events) {
    for (const LoggedEvent& event : *events) texts.push_back(event.text);
  });
  settle();
  EXPECT_THAT(texts, ElementsAre("the lease of a client has expired"));
}

TEST_F(HostingTest, UnloadsWhatIsIdleAndReadsItAgainWhenItIsAskedFor) {
  const CounterPtr counter = host("c");
  EXPECT_TRUE(raise(counter));
  EXPECT_GT(hosting_->table().memory(), 0U);
  pass(Seconds{61});
  pass(Seconds{61});
  EXPECT_TRUE(counter->unloaded);
  EXPECT_TRUE(counter->has_left);
  EXPECT_EQ(hosting_->table().memory(), 0U);
  EXPECT_THAT(listed(), ElementsAre("c \"value\":1 idle stored"));
  const CounterPtr again = load("c");
  ASSERT_NE(again, nullptr);
  EXPECT_NE(again, counter);
  EXPECT_EQ(again->value(), 1);
  EXPECT_EQ(hosting_->memory().counts().loads, 1U);
}

TEST_F(HostingTest, GivesAClientHalfOfTheMemoryOrOneLargerJobAlone) {
  const std::size_t share = hosting_->options().most_memory / 2;
  EXPECT_TRUE(hosting_->memory().make_room(share + 1, "a").ok());  // a single job may be larger
  host("c", "a");
  EXPECT_TRUE(hosting_->memory().make_room(share - 1000, "a").ok());
  const Status refused = hosting_->memory().make_room(share, "a");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().text(), HasSubstr("jobs of a that train now"));
  EXPECT_TRUE(hosting_->memory().make_room(share, "b").ok());
  EXPECT_TRUE(hosting_->memory().make_room(share).ok());
}

TEST_F(HostingTest, GivesMemoryBackToTheClientWhoseJobIsGone) {
  const std::size_t share = hosting_->options().most_memory / 2;
  host("c", "a");
  hosting_->claims().remove("c", [](const Result<bool>&) {});
  settle();
  EXPECT_TRUE(hosting_->memory().make_room(share + 1, "a").ok());
}

TEST_F(HostingTest, LetsTheOnlyJobOfAClientGrowBeyondItsShare) {
  const std::size_t share = hosting_->options().most_memory / 2;
  const CounterPtr counter = host("c", "a");
  EXPECT_TRUE(hosting_->memory().make_room_in(*counter, share, "a").ok());
  EXPECT_FALSE(hosting_->memory().make_room_in(*counter, 2 * share, "a").ok());
  host("another", "a");
  EXPECT_FALSE(hosting_->memory().make_room_in(*counter, share, "a").ok());
  // A job that is in memory needs no more room.
  EXPECT_TRUE(hosting_->memory().make_room_in(*counter, 0, "b").ok());
  // A request of another client also counts for the client that registered the job.
  EXPECT_FALSE(hosting_->memory().make_room_in(*counter, share, "b").ok());
  EXPECT_EQ(counter->client, "a");
}

TEST_F(HostingTest, CountsAJobThatWasReadForTheFirstClientThatTakesPart) {
  const std::size_t share = hosting_->options().most_memory / 2;
  host("c", "a");
  stop();
  start();
  const CounterPtr read = load("c");
  EXPECT_EQ(read->client, "");
  ASSERT_TRUE(hosting_->memory().make_room_in(*read, 0, "b").ok());
  EXPECT_EQ(read->client, "b");
  raise(read);  // it is not idle, so it stays in memory
  EXPECT_TRUE(hosting_->memory().make_room(share, "a").ok());
  EXPECT_FALSE(hosting_->memory().make_room(share, "b").ok());
  ASSERT_TRUE(hosting_->memory().make_room_in(*read, 0, "a").ok());
  EXPECT_EQ(read->client, "b");
}

TEST_F(HostingTest, KeepsTheIdleJobForWhichItMakesRoom) {
  const CounterPtr counter = host("c", "a");
  host("another", "a");
  clock_.advance(Seconds{61});  // both are idle
  time_ += 61;
  EXPECT_TRUE(
      hosting_->memory().make_room_in(*counter, hosting_->options().most_memory - 1000, "a").ok());
  EXPECT_EQ(hosting_->table().find("c"), counter);
  EXPECT_EQ(hosting_->table().find("another"), nullptr);
}

TEST_F(HostingTest, RemovesWhatIsInMemoryAndWhatIsNot) {
  const CounterPtr counter = host("in-memory");
  host("stored");
  stop();
  start();
  EXPECT_NE(load("in-memory"), nullptr);
  for (const char* id : {"in-memory", "stored", "nothing"}) {
    bool was_there = id == std::string("nothing");
    hosting_->claims().remove(id, [&](const Result<bool>& removed) { was_there = *removed; });
    settle();
    EXPECT_EQ(was_there, id != std::string("nothing")) << id;
    EXPECT_FALSE(hosting_->table().holds(id));
    EXPECT_FALSE(*store_->job(id));
  }
  EXPECT_EQ(hosting_->table().count(), 0U);
  EXPECT_EQ(hosting_->table().memory(), 0U);
}

TEST_F(HostingTest, RemovesWhatEndedLongAgo) {
  host("c");
  pass(Seconds{120});
  clock_.advance(Seconds{40.0 * 86'400});
  time_ += 40.0 * 86'400;
  hosting_->prune(Seconds{1e9});
  settle();
  EXPECT_FALSE(*store_->job("c"));
  EXPECT_EQ(hosting_->table().count(), 0U);
}

TEST_F(HostingTest, LetsGoWhatTheStoreRefusesAndAcknowledgesNothingOfIt) {
  const CounterPtr counter = host("c");
  ASSERT_TRUE(save(*store_, {"c", "another server's", 1000, 1}).ok());
  EXPECT_TRUE(raise(counter));
  const Status status = stored(counter);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().text(), HasSubstr("the job has moved to another server"));
  EXPECT_TRUE(counter->moved);
  EXPECT_FALSE(hosting_->claims().commands(*counter));
  EXPECT_FALSE(hosting_->table().holds("c"));
  EXPECT_EQ((*store_->job("c"))->state, "another server's");
}

TEST_F(HostingTest, LetsGoWhatItHasByAnotherClaimNow) {
  const CounterPtr counter = host("c");
  EXPECT_TRUE(hosting_->claims().commands(*counter));
  const JobClaim claim{.epoch = counter->claim.epoch + 1, .tenure = counter->claim.tenure};
  EXPECT_TRUE(hosting_->memory().take_up(counter->summary(), claim));
  EXPECT_TRUE(counter->moved);
  EXPECT_FALSE(hosting_->claims().commands(*counter));
  EXPECT_TRUE(hosting_->claims().commands("c"));
  EXPECT_FALSE(hosting_->memory().take_up(counter->summary(), claim));
}

TEST_F(HostingTest, WritesNothingBehindARemoval) {
  host("c");
  stop();
  start();
  hosting_->claims().remove("c", [](const Result<bool>& removed) { EXPECT_TRUE(*removed); });
  CounterPtr counter;
  hosting_->memory().load("c", [&](const Result<HostedPtr>& loaded) {
    counter = std::dynamic_pointer_cast<Counter>(*loaded);
  });
  read_only();
  ASSERT_NE(counter, nullptr);
  EXPECT_TRUE(raise(counter));
  Status answered = ok_status();
  hosting_->saver().when_stored(counter, [&](const Status& status) { answered = status; });
  settle();
  EXPECT_TRUE(counter->deleted);
  EXPECT_EQ(answered.error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(*store_->job("c"));
  EXPECT_TRUE(store_->parts("c")->empty());
  host("c");  // the id is free
  EXPECT_TRUE(*store_->job("c"));
}

TEST_F(HostingTest, SaysThatWhatIsDamagedCannotBeReadAndFreesItsId) {
  for (const char* state : {"{", R"({"format":"test.counter/1"})", R"({"format":"other/1"})"}) {
    ASSERT_TRUE(save(*store_, {"c", state, 1, 1}).ok());
    stop();
    start();
    Result<HostedPtr> loaded = HostedPtr();
    hosting_->memory().load("c", [&](const Result<HostedPtr>& hosted) { loaded = hosted; });
    settle();
    ASSERT_FALSE(loaded.ok()) << state;
    EXPECT_EQ(loaded.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(loaded.error().text(), HasSubstr("removing it frees its id"));
    hosting_->claims().remove("c", [](const Result<bool>& removed) { EXPECT_TRUE(*removed); });
    settle();
  }
}

TEST_F(HostingTest, HostsTrainingJobsBesideItAndKeepsTheirIdsApart) {
  host("c");
  std::vector<Result<JobRegistry::Registered>> answers;
  for (const char* id : {"c", "j"}) {
    registry_->put(id, test_specification(false), "",
                   [&](Result<JobRegistry::Registered> one) { answers.push_back(std::move(one)); });
    settle();
  }
  ASSERT_EQ(answers.size(), 2U);
  ASSERT_FALSE(answers[0].ok());
  EXPECT_EQ(answers[0].error().code, ErrorCode::kConflict);
  ASSERT_TRUE(answers[1].ok()) << answers[1].error().text();
  EXPECT_EQ(registry_->find("c"), nullptr);
  EXPECT_THAT(registry_->jobs(), ElementsAre(answers[1]->job));
  EXPECT_EQ(hosting_->table().count(), 2U);
  stop();
  start();
  Result<JobPtr> job = JobPtr();
  registry_->load("j", [&](const Result<JobPtr>& loaded) { job = loaded; });
  EXPECT_EQ(load("c")->value(), 0);
  EXPECT_EQ((*job)->job.spec().name, "test");
}

TEST_F(HostingTest, EndsTheProgramRatherThanRemoveAJobTwiceAtOnce) {
  ServiceClock time({.boot_time = [] { return 0.0; }, .wall = [] { return 0.0; }, .boot = "one"});
  const MakeWorkers make = [](const Workers::Options&) { return std::make_unique<TestWorkers>(); };
  JobSaver saver({.loop = loop_,
                  .clock = clock_,
                  .time = time,
                  .store = store_.get(),
                  .log = {},
                  .make_workers = make,
                  .lost = {}});
  saver.remove({{.job = "c", .epoch = 1}}, [](const JobSaver::Removed&) {});
  EXPECT_DEATH(saver.remove({{.job = "c", .epoch = 1}}, [](const JobSaver::Removed&) {}),
               "removed once at a time");
}

}  // namespace
}  // namespace harpe::training
