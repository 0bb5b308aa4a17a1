// Tests of PostgreSQL alone: stopped processes, schemas, rights, and a process that hangs. Several
// servers over one database are tested in shared_store_test.cc.

#include <chrono>
#include <csignal>
#include <thread>

#include "harpe/training/store/postgres_testing.h"
#include "harpe/training/store/server_process_testing.h"
#include "harpe/training/store/sql_store.h"
#include "harpe/training/store/store_testing.h"

namespace harpe::training {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class Postgres : public ::testing::Test {
 protected:
  std::unique_ptr<Store> another(const StoreOptions& options = kImpatient) const {
    return opened(url_, options);
  }
  /// Opens a store that may own jobs.
  std::unique_ptr<Store> server(const std::string& url, const LeaseTimes& lease = {}) const {
    return opened(url_, server_options(url, lease));
  }

  PostgresServer& server_ = PostgresServer::shared();
  std::string database_ = server_.new_database();
  std::string url_ = server_.url(database_);
};

TEST_F(Postgres, AServerThatIsStoppedLosesItsJobsOnceItsLeaseIsOverAndKnowsItWhenItWakes) {
  const LeaseTimes brief{.lease = 1_s, .beat = 0.1_s, .margin = 0.1_s};
  ServerProcess owner(url_, server_options("http://stopped", brief));
  const auto store = server("http://heir", brief);
  EXPECT_EQ(owner.ask('l'), 'y');
  owner.send(SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually([&] { return store->claim("a")->has_value(); }));
  // Its last beat may have been sent just before it was stopped, and first seen then.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1000));
  EXPECT_OK(save(*store, {"a", "by the heir", 2, 1}));
  owner.send(SIGCONT);
  // It checks its lease before it reports anything.
  EXPECT_EQ(owner.ask('l'), 'n');
  EXPECT_EQ(owner.ask('s'), 'n');
  EXPECT_EQ((*store->job("a"))->state, "by the heir");
  EXPECT_EQ(*store->owner("a"), own("http://heir"));
  // It joins again under another name, so that it may own other jobs.
  EXPECT_TRUE(eventually(
      [&] { return server_.execute(database_, "SELECT count(*) FROM harpe_server") == "2"; }));
}

TEST_F(Postgres, AServerThatIsStoppedForLessKeepsItsJobs) {
  const LeaseTimes lease{.lease = 5_s, .beat = 0.1_s, .margin = 0.5_s};
  ServerProcess owner(url_, server_options("http://stopped", lease));
  const auto store = server("http://heir", lease);
  owner.send(SIGSTOP);
  // Longer than a server needs for several looks at the others.
  const std::string beat = "SELECT beat FROM harpe_server WHERE url = 'http://heir'";
  const std::string before = server_.execute(database_, beat);
  EXPECT_TRUE(eventually(
      [&] { return std::stoi(server_.execute(database_, beat)) > std::stoi(before) + 5; }));
  EXPECT_FALSE(*store->claim("a"));
  owner.send(SIGCONT);
  EXPECT_EQ(owner.ask('l'), 'y');
  EXPECT_EQ(owner.ask('s'), 'y');
}

TEST_F(Postgres, InstallationsInTwoSchemasDoNotDisturbEachOther) {
  server_.execute(database_, "CREATE SCHEMA one");
  server_.execute(database_, "CREATE SCHEMA two");
  const auto one = opened(url_ + "&schema=one", server_options("http://one")),
             two = opened(url_ + "&schema=two", server_options("http://two"));
  Heard heard;
  EXPECT_OK(two->listen(heard.listener()));
  heard.wait_for(1);
  EXPECT_OK(save(*one, {"a", "one's", 1, 1}));
  EXPECT_TRUE(*one->claim("a"));
  EXPECT_TRUE(*two->claim("a"));
  EXPECT_OK(one->notify("for one"));
  EXPECT_OK(two->notify("for two"));
  EXPECT_THAT(texts_of(heard.wait_for(2)), ElementsAre("look again", "for two"));
  EXPECT_THAT(*two->jobs(), IsEmpty());
  EXPECT_THAT(error_of(Store::open(url_ + "&schema=three")), HasSubstr("not_found: "));
}

TEST_F(Postgres, ServersThatStartAtOnceMakeTheTablesOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([this, i] {
      const auto store = Store::open(url_);
      ASSERT_TRUE(store.ok()) << store.error().text();
      EXPECT_OK(save(**store, {"job " + std::to_string(i), "state", 1, 1}));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(*another()->jobs(), SizeIs(6));
}

TEST_F(Postgres, ADatabaseThatHangsIsUnavailableInTime) {
  const auto store = another();
  EXPECT_OK(save(*store, {"a", "state", 1, 1}));
  const pid_t backend = std::stoi(server_.execute(
      "postgres", "SELECT pid FROM pg_stat_activity WHERE datname = '" + database_ + "'"));
  ::kill(backend, SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(error_of(save(*store, {"a", "state", 2, 1})), HasSubstr("no answer for 0.5 s"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_OK(save(*store, {"a", "state", 2, 1}));  // over another connection
  ::kill(backend, SIGCONT);
}

TEST_F(Postgres, APasswordIsNeededAndNeverShown) {
  const std::string secret = "Zq7Zq7Zq7";
  server_.execute("postgres", "CREATE ROLE keeper LOGIN PASSWORD '" + secret + "'");
  server_.execute("postgres", "CREATE DATABASE guarded OWNER keeper");
  const std::string socket = "@/guarded?host=" + server_.directory().string();
  const auto store = opened("postgresql://keeper:" + secret + socket, kImpatient);
  EXPECT_OK(save(*store, {"a", "state", 1, 1}));
  EXPECT_THAT(store->description(), AllOf(HasSubstr("keeper:***@"), Not(HasSubstr(secret))));
  EXPECT_THAT(error_of(Store::open("postgresql://keeper:Zq7Zq7Zq8" + socket)),
              AllOf(HasSubstr("no_permission: "), HasSubstr("~/.pgpass"), Not(HasSubstr("Zq7"))));
  EXPECT_THAT(error_of(Store::open("postgresql://keeper" + socket)), HasSubstr("no_permission: "));
  server_.stop(SIGINT);
  EXPECT_THAT(error_of(store->check()), AllOf(HasSubstr("unavailable: "), Not(HasSubstr(secret))));
  server_.start();
  EXPECT_TRUE(eventually([&] { return store->check().ok(); }));
}

TEST_F(Postgres, WhoMayNotMakeOrChangeTablesIsToldSo) {
  server_.execute("postgres", "CREATE ROLE guest LOGIN");
  EXPECT_THAT(error_of(Store::open(server_.url(database_, "guest"))),
              AllOf(HasSubstr("no_permission: "), HasSubstr("docs/storage.md")));
  EXPECT_OK(save(*another(), {"a", "state", 1, 1}));
  EXPECT_THAT(error_of(Store::open(server_.url(database_, "guest"))), HasSubstr("no_permission: "));
  // Using existing tables needs no right to create tables.
  server_.execute(database_, "GRANT ALL ON ALL TABLES IN SCHEMA public TO guest");
  const auto store = opened(server_.url(database_, "guest"), server_options("http://guest"));
  EXPECT_OK(save(*store, {"a", "state", 2, 1}));
  EXPECT_TRUE(*store->claim("a"));
}

TEST_F(Postgres, ADatabaseThatIsNotThereOrOnlyReadsSaysSo) {
  EXPECT_THAT(error_of(Store::open(server_.url("nowhere"))),
              AllOf(HasSubstr("unavailable: "), HasSubstr("\"nowhere\" does not exist")));
  EXPECT_THAT(error_of(Store::open("postgresql://u@/d?host=/nowhere")), HasSubstr("unavailable: "));
  const auto store = another();
  server_.execute("postgres",
                  "ALTER DATABASE " + database_ + " SET default_transaction_read_only = on");
  server_.end_all_connections(database_);
  EXPECT_THAT(error_of(save(*store, {"a", "state", 1, 1})), HasSubstr("unavailable: "));
  server_.execute("postgres",
                  "ALTER DATABASE " + database_ + " RESET default_transaction_read_only");
  EXPECT_TRUE(eventually([&] { return save(*store, {"a", "state", 1, 1}).ok(); }));
}

TEST_F(Postgres, AFailedChangeLeavesNothingOfItself) {
  const auto store = another();
  EXPECT_OK(save(*store, {"a", "before", 1, 1}));
  server_.execute(database_, "ALTER TABLE harpe_event ADD CHECK (text <> 'refused')");
  const auto written =
      store->write({.jobs = {{{"a", "after", 2, 1}, "plans"}},
                    .events = {{0, 1, "a", "kind", "good"}, {0, 1, "a", "kind", "refused"}},
                    .notifications = {"never"}});
  EXPECT_FALSE(written.ok());
  EXPECT_EQ((*store->job("a"))->state, "before");
  EXPECT_EQ(*store->plans("a"), std::nullopt);
  EXPECT_THAT(*store->events("a", 0, 10), IsEmpty());
  EXPECT_OK(save(*store, {"a", "after", 2, 1}));
}

}  // namespace
}  // namespace harpe::training
