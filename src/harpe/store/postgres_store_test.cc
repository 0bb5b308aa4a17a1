// Several servers over one PostgreSQL, and a PostgreSQL that goes away.

#include "harpe/store/postgres_store.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <thread>

#include "harpe/store/postgres_testing.h"
#include "harpe/store/store_testing.h"

namespace harpe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const StoreOptions kImpatient{.timeout = 0.5_s, .reconnect_pause = 0.02_s};

class Postgres : public ::testing::Test {
 protected:
  std::unique_ptr<Store> another(const StoreOptions& options = kImpatient) const {
    return opened(url_, options);
  }

  /// Calls until it says yes, as a server does that waits for a job to become free.
  static bool becomes_true(const std::function<bool()>& condition) {
    for (int attempt = 0; attempt < 1000; ++attempt) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  /// Ends the database's side of every connection, as its operator can.
  void end_all_connections() {
    server_.execute("postgres",
                    "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE "
                    "datname = '" +
                        database_ + "'");
  }

  PostgresServer& server_ = PostgresServer::shared();
  std::string database_ = server_.new_database();
  std::string url_ = server_.url(database_);
};

TEST_F(Postgres, AJobHasOneOwnerAndEveryServerSeesWho) {
  const auto first = another(), second = another();
  EXPECT_TRUE(*first->claim("a", "http://first"));
  EXPECT_FALSE(*second->claim("a", "http://second"));
  EXPECT_TRUE(*second->claim("b", "http://second"));
  for (const auto& store : {first.get(), second.get()}) {
    EXPECT_EQ(*store->owner("a"), "http://first");
    EXPECT_EQ(*store->owners(),
              (std::map<std::string, std::string>{{"a", "http://first"}, {"b", "http://second"}}));
  }
  EXPECT_OK(second->release("a"));  // not its own
  EXPECT_EQ(*second->owner("a"), "http://first");
  EXPECT_OK(first->release("a"));
  EXPECT_TRUE(*second->claim("a", "http://second"));
  EXPECT_EQ(*first->owner("a"), "http://second");
}

TEST_F(Postgres, OnlyTheOwnerChangesAJob) {
  const auto first = another(), second = another();
  EXPECT_TRUE(*first->claim("a", "http://first"));
  EXPECT_OK(first->save({"a", "first's", 1, 1}));
  EXPECT_THAT(error_of(second->save({"a", "second's", 2, 1})), HasSubstr("conflict: "));
  EXPECT_THAT(error_of(second->append({0, 1, "a", "kind", "text"})), HasSubstr("conflict: "));
  EXPECT_THAT(error_of(second->remove("a")), HasSubstr("conflict: "));
  const auto refused = second->write(
      {.jobs = {{{"a", "second's", 2, 1}, std::nullopt}, {{"b", "second's", 2, 1}, std::nullopt}},
       .events = {},
       .notices = {}});
  ASSERT_TRUE(refused);
  EXPECT_THAT(*refused, ElementsAre("a"));
  EXPECT_EQ((*first->job("a"))->state, "first's");
  EXPECT_EQ((*first->job("b"))->state, "second's");
}

TEST_F(Postgres, AJobIsFreeWhenItsOwnerIsKilled) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto store = Store::open(url_);
    const char word =
        store && *(*store)->claim("a", "http://killed") && (*store)->save({"a", "saved", 1, 1})
            ? 'y'
            : 'n';
    if (::write(ready[1], &word, 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  char word = 0;
  ASSERT_EQ(::read(ready[0], &word, 1), 1);
  ASSERT_EQ(word, 'y');
  const auto store = another();
  EXPECT_FALSE(*store->claim("a", "http://heir"));
  EXPECT_EQ(*store->owner("a"), "http://killed");
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  EXPECT_TRUE(becomes_true([&] { return *store->owner("a") == std::nullopt; }));
  EXPECT_THAT(error_of(store->save({"a", "not claimed", 2, 1})), HasSubstr("conflict: "));
  EXPECT_TRUE(*store->claim("a", "http://heir"));
  EXPECT_EQ((*store->job("a"))->state, "saved");
  EXPECT_OK(store->save({"a", "inherited", 2, 1}));
  ::close(ready[0]), ::close(ready[1]);
}

TEST_F(Postgres, AChangeIsAnnouncedToAllServersOnceItIsWritten) {
  const auto first = another(), second = another();
  Heard by_first, by_second;
  EXPECT_OK(first->listen(by_first.listener()));
  EXPECT_OK(second->listen(by_second.listener()));
  by_first.wait_for(1), by_second.wait_for(1);
  for (int i = 1; i <= 50; ++i) {
    EXPECT_OK(first->write({.jobs = {{{"a", std::to_string(i), i, 1}, std::nullopt}},
                            .events = {},
                            .notices = {"a " + std::to_string(i)}}));
  }
  const auto heard = by_second.wait_for(51);
  ASSERT_THAT(heard, SizeIs(51));
  EXPECT_EQ(heard[0].kind, StoreNotice::Kind::kLookAgain);
  for (std::size_t i = 1; i <= 50; ++i) {
    EXPECT_EQ(heard[i].text, "a " + std::to_string(i));
    EXPECT_FALSE(heard[i].own);
  }
  EXPECT_EQ((*second->job("a"))->revision, 50);
  EXPECT_TRUE(by_first.wait_for(51).back().own);
}

TEST_F(Postgres, InstallationsInTwoSchemasDoNotDisturbEachOther) {
  server_.execute(database_, "CREATE SCHEMA one");
  server_.execute(database_, "CREATE SCHEMA two");
  const auto one = opened(url_ + "&schema=one"), two = opened(url_ + "&schema=two");
  Heard heard;
  EXPECT_OK(two->listen(heard.listener()));
  heard.wait_for(1);
  EXPECT_OK(one->save({"a", "one's", 1, 1}));
  EXPECT_TRUE(*one->claim("a", "http://one"));
  EXPECT_TRUE(*two->claim("a", "http://two"));
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
      ASSERT_TRUE(store) << store.error().text();
      EXPECT_OK((*store)->save({"job " + std::to_string(i), "state", 1, 1}));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(*another()->jobs(), SizeIs(6));
}

TEST_F(Postgres, ADatabaseThatGoesAwayForAWhileIsUnavailableAndThenGoesOn) {
  const auto store = another();
  Heard heard;
  EXPECT_OK(store->listen(heard.listener()));
  heard.wait_for(1);
  EXPECT_TRUE(*store->claim("a", "http://me"));
  EXPECT_OK(store->save({"a", "before", 1, 1}, "plans"));
  server_.stop(SIGQUIT);
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(error_of(store->save({"a", "while", 2, 1})), HasSubstr("unavailable: "));
    EXPECT_THAT(error_of(store->jobs()), HasSubstr("unavailable: "));
    EXPECT_THAT(error_of(store->claim("b", "http://me")), HasSubstr("unavailable: "));
    EXPECT_FALSE(store->check());
  }
  server_.start();
  EXPECT_TRUE(becomes_true([&] { return store->check().ok(); }));
  EXPECT_EQ((*store->job("a"))->state, "before");
  EXPECT_EQ(*store->plans("a"), "plans");
  EXPECT_EQ(*store->owner("a"), "http://me");  // taken back by itself
  EXPECT_OK(store->save({"a", "while", 2, 1}));
  EXPECT_FALSE(*another()->claim("a", "http://other"));
  // What was announced meanwhile is gone, and the listener knows.
  EXPECT_THAT(texts_of(heard.wait_for(2)), ElementsAre("look again", "look again"));
  EXPECT_OK(store->notify("after"));
  EXPECT_EQ(heard.wait_for(3).back().text, "after");
}

TEST_F(Postgres, AConnectionThatEndedMeanwhileIsNotNoticed) {
  const auto store = another();
  EXPECT_TRUE(*store->claim("a", "http://me"));
  end_all_connections();
  EXPECT_OK(store->save({"a", "state", 1, 1}));
  EXPECT_FALSE(*another()->claim("a", "http://other"));
}

TEST_F(Postgres, WhoLostAJobWithItsConnectionChangesNothingAnyMore) {
  const auto first = another(), second = another();
  EXPECT_TRUE(*first->claim("a", "http://first"));
  EXPECT_TRUE(*first->claim("b", "http://first"));
  EXPECT_OK(first->save({"a", "first's", 1, 1}));
  end_all_connections();
  EXPECT_TRUE(*second->claim("a", "http://second"));
  EXPECT_THAT(error_of(first->save({"a", "first's", 2, 1})), HasSubstr("conflict: "));
  EXPECT_FALSE(*first->claim("a", "http://first"));
  EXPECT_OK(second->save({"a", "second's", 2, 1}));
  EXPECT_EQ(*first->owner("b"), "http://first");
  EXPECT_OK(second->release("a"));
  EXPECT_TRUE(*first->claim("a", "http://first"));
}

TEST_F(Postgres, ADatabaseThatHangsIsUnavailableInTime) {
  const auto store = another();
  EXPECT_OK(store->save({"a", "state", 1, 1}));
  const pid_t backend = std::stoi(server_.execute(
      "postgres", "SELECT pid FROM pg_stat_activity WHERE datname = '" + database_ + "'"));
  ::kill(backend, SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(error_of(store->save({"a", "state", 2, 1})), HasSubstr("no answer for 0.5 s"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_OK(store->save({"a", "state", 2, 1}));  // over another connection
  ::kill(backend, SIGCONT);
}

/// Between a store and PostgreSQL: can take away the store's side of its connections and leave the
/// other side open, as a network does that breaks.
class BreakingNetwork {
 public:
  BreakingNetwork(const std::filesystem::path& directory, const std::filesystem::path& target)
      : target_(target / ".s.PGSQL.5432") {
    listening_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = address_of(directory / ".s.PGSQL.5432");
    EXPECT_EQ(::bind(listening_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listening_, 10), 0);
    thread_ = std::thread([this] { run(); });
  }
  BreakingNetwork(const BreakingNetwork&) = delete;
  BreakingNetwork& operator=(const BreakingNetwork&) = delete;
  ~BreakingNetwork() {
    stopping_ = true;
    thread_.join();
    for (const int fd : {listening_, client_, server_}) ::close(fd);
    for (const int fd : dead_) ::close(fd);
  }
  void break_connections() {
    breaking_ = true;
    while (breaking_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  static sockaddr_un address_of(const std::filesystem::path& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.string().copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
  }

  void run() {
    while (!stopping_) {
      if (breaking_) {
        if (client_ >= 0) ::close(client_);
        if (server_ >= 0) dead_.push_back(server_);
        client_ = server_ = -1;
        breaking_ = false;
      }
      pollfd ready[3] = {{listening_, POLLIN, 0}, {client_, POLLIN, 0}, {server_, POLLIN, 0}};
      if (::poll(ready, 3, 5) <= 0) continue;
      if (ready[0].revents != 0) accept_one();
      if (ready[1].revents != 0) pass(client_, server_);
      if (ready[2].revents != 0) pass(server_, client_);
    }
  }

  void accept_one() {
    for (const int fd : {client_, server_}) {
      if (fd >= 0) ::close(fd);
    }
    client_ = ::accept(listening_, nullptr, nullptr);
    server_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = address_of(target_);
    EXPECT_EQ(::connect(server_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }

  void pass(int& from, int& to) {
    char buffer[4096];
    const ssize_t size = ::read(from, buffer, sizeof buffer);
    if (size > 0 && ::write(to, buffer, static_cast<std::size_t>(size)) == size) return;
    ::close(from), ::close(to);
    from = to = -1;
  }

  std::filesystem::path target_;
  int listening_ = -1, client_ = -1, server_ = -1;
  std::vector<int> dead_;
  std::atomic<bool> stopping_ = false, breaking_ = false;
  std::thread thread_;
};

TEST_F(Postgres, AJobIsTakenBackFromTheSameServersLostConnection) {
  const TestDirectory directory;
  BreakingNetwork network(directory.path(), server_.directory());
  const auto store = opened(server_.url(database_, "harpe", directory.path().string()), kImpatient);
  EXPECT_TRUE(*store->claim("a", "http://me"));
  network.break_connections();
  // The database knows nothing of it: for it, the old connection still holds the job.
  EXPECT_EQ(*another()->owner("a"), "http://me");
  EXPECT_TRUE(becomes_true([&] { return store->check().ok(); }));
  EXPECT_OK(store->save({"a", "state", 1, 1}));
  EXPECT_EQ(*store->owner("a"), "http://me");
  EXPECT_TRUE(*store->claim("a", "http://me"));
  EXPECT_FALSE(*another()->claim("a", "http://other"));
  EXPECT_EQ(server_.execute(database_, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"),
            "1");
}

TEST_F(Postgres, APasswordIsNeededAndNeverShown) {
  const std::string secret = "Zq7Zq7Zq7";
  server_.execute("postgres", "CREATE ROLE keeper LOGIN PASSWORD '" + secret + "'");
  server_.execute("postgres", "CREATE DATABASE guarded OWNER keeper");
  const std::string socket = "@/guarded?host=" + server_.directory().string();
  const auto store = opened("postgresql://keeper:" + secret + socket, kImpatient);
  EXPECT_OK(store->save({"a", "state", 1, 1}));
  EXPECT_THAT(store->description(), AllOf(HasSubstr("keeper:***@"), Not(HasSubstr(secret))));
  EXPECT_THAT(error_of(Store::open("postgresql://keeper:Zq7Zq7Zq8" + socket)),
              AllOf(HasSubstr("no_permission: "), HasSubstr("~/.pgpass"), Not(HasSubstr("Zq7"))));
  EXPECT_THAT(error_of(Store::open("postgresql://keeper" + socket)), HasSubstr("no_permission: "));
  server_.stop(SIGINT);
  EXPECT_THAT(error_of(store->check()), AllOf(HasSubstr("unavailable: "), Not(HasSubstr(secret))));
  server_.start();
  EXPECT_TRUE(becomes_true([&] { return store->check().ok(); }));
}

TEST_F(Postgres, WhoMayNotMakeOrChangeTablesIsToldSo) {
  server_.execute("postgres", "CREATE ROLE guest LOGIN");
  EXPECT_THAT(error_of(Store::open(server_.url(database_, "guest"))),
              AllOf(HasSubstr("no_permission: "), HasSubstr("docs/storage.md")));
  EXPECT_OK(another()->save({"a", "state", 1, 1}));
  EXPECT_THAT(error_of(Store::open(server_.url(database_, "guest"))), HasSubstr("no_permission: "));
  // Using tables that are there needs no right to make any.
  server_.execute(database_, "GRANT ALL ON ALL TABLES IN SCHEMA public TO guest");
  const auto store = opened(server_.url(database_, "guest"));
  EXPECT_OK(store->save({"a", "state", 2, 1}));
  EXPECT_TRUE(*store->claim("a", "http://guest"));
}

TEST_F(Postgres, ADatabaseThatIsNotThereOrOnlyReadsSaysSo) {
  EXPECT_THAT(error_of(Store::open(server_.url("nowhere"))),
              AllOf(HasSubstr("unavailable: "), HasSubstr("\"nowhere\" does not exist")));
  EXPECT_THAT(error_of(Store::open("postgresql://u@/d?host=/nowhere")), HasSubstr("unavailable: "));
  const auto store = another();
  server_.execute("postgres",
                  "ALTER DATABASE " + database_ + " SET default_transaction_read_only = on");
  end_all_connections();
  EXPECT_THAT(error_of(store->save({"a", "state", 1, 1})), HasSubstr("unavailable: "));
  server_.execute("postgres",
                  "ALTER DATABASE " + database_ + " RESET default_transaction_read_only");
  EXPECT_TRUE(becomes_true([&] { return store->save({"a", "state", 1, 1}).ok(); }));
}

TEST_F(Postgres, AFailedChangeLeavesNothingOfItself) {
  const auto store = another();
  EXPECT_OK(store->save({"a", "before", 1, 1}));
  server_.execute(database_, "ALTER TABLE harpe_event ADD CHECK (text <> 'refused')");
  const auto written =
      store->write({.jobs = {{{"a", "after", 2, 1}, "plans"}},
                    .events = {{0, 1, "a", "kind", "good"}, {0, 1, "a", "kind", "refused"}},
                    .notices = {"never"}});
  EXPECT_FALSE(written);
  EXPECT_EQ((*store->job("a"))->state, "before");
  EXPECT_EQ(*store->plans("a"), std::nullopt);
  EXPECT_THAT(*store->events("a", 0, 10), IsEmpty());
  EXPECT_OK(store->save({"a", "after", 2, 1}));
}

}  // namespace
}  // namespace harpe
