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
  /// One that may own jobs.
  std::unique_ptr<Store> server(const std::string& url, const LeaseTimes& lease = {}) const {
    return opened(url_, server_options(url, lease));
  }
  static StoreOptions server_options(const std::string& url, const LeaseTimes& lease = {}) {
    StoreOptions options = kImpatient;
    options.url = url;
    options.lease = lease;
    return options;
  }
  static std::optional<JobOwner> own(const std::string& url) { return JobOwner{url, true}; }
  static std::optional<JobOwner> others(const std::string& url) { return JobOwner{url, false}; }

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
  EXPECT_OK(second->release("a"));  // not its own
  EXPECT_EQ(*second->owner("a"), others("http://first"));
  EXPECT_OK(first->release("a"));
  EXPECT_TRUE(*second->claim("a"));
  EXPECT_EQ(*first->owner("a"), others("http://second"));
  EXPECT_FALSE(another()->claim("c")) << "no server could reach it";
}

TEST_F(Postgres, OnlyTheOwnerChangesAJobAndOnlyByItsLastClaim) {
  const auto first = server("http://first"), second = server("http://second");
  const auto before = *first->claim("a");
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
  EXPECT_EQ(*first->claim("a"), before) << "again";
  // What was to be written before the job was given up is refused, too.
  EXPECT_OK(first->release("a"));
  const auto after = *first->claim("a");
  EXPECT_EQ(after->epoch, before->epoch + 1);
  const auto write_by = [&](std::int64_t epoch, const char* state) {
    return *first->write({.jobs = {{{"a", state, 2, 1}, std::nullopt}},
                          .events = {},
                          .notices = {},
                          .epochs = {{"a", epoch}}});
  };
  EXPECT_THAT(write_by(before->epoch, "old"), ElementsAre("a"));
  EXPECT_THAT(write_by(after->epoch, "new"), IsEmpty());
  EXPECT_THAT(error_of(first->remove("a", before->epoch)), HasSubstr("conflict: "));
  EXPECT_OK(first->remove("a", after->epoch));
  EXPECT_THAT(write_by(after->epoch, "from the dead"), ElementsAre("a"));
}

TEST_F(Postgres, PartsSummariesAndEventsAreTheOwnersToo) {
  const auto first = server("http://first"), second = server("http://second");
  const auto mine = *first->claim("a");
  const JobSummary summary{"a", "first's", 5, 7};
  const StoredEvent event{0, 1, "a", "kind", "text"};
  EXPECT_THAT(*first->write({.jobs = {{.job = {"a", "first's", 1, 1},
                                       .plans = std::nullopt,
                                       .parts = {{"ranks 0", "first's"}},
                                       .summary = summary}},
                             .events = {event},
                             .notices = {},
                             .epochs = {{"a", mine->epoch}}}),
              IsEmpty());
  EXPECT_THAT(*second->write({.jobs = {{.job = {"a", "second's", 2, 1},
                                        .plans = std::nullopt,
                                        .parts = {{"ranks 0", "second's"}}}},
                              .events = {},
                              .notices = {}}),
              ElementsAre("a"));
  // That it has ended is said by its owner alone, and old events of it are the owner's to prune.
  EXPECT_THAT(
      *second->write({.jobs = {}, .events = {}, .notices = {}, .summaries = {{"a", "", 9, 9}}}),
      ElementsAre("a"));
  EXPECT_EQ(*second->prune({.since = 100}), 0);
  EXPECT_EQ(*second->prune({.since = 0, .most_per_job = 0, .jobs = std::vector<std::string>{"a"}}),
            0);
  EXPECT_EQ(*first->summary("a"), summary);
  EXPECT_EQ((*first->parts("a"))["ranks 0"], "first's");
  EXPECT_EQ(*first->prune({.since = 100}), 1);
  // By a claim that is over it says nothing any more either.
  EXPECT_OK(first->release("a"));
  EXPECT_TRUE(*first->claim("a"));
  EXPECT_THAT(*first->write({.jobs = {},
                             .events = {},
                             .notices = {},
                             .summaries = {{"a", "", 9, 9}},
                             .epochs = {{"a", mine->epoch}}}),
              ElementsAre("a"));
}

/// A server in a process of its own, which claims "a" and does what it is told by one letter.
class ServerProcess {
 public:
  ServerProcess(const std::string& database, const StoreOptions& options) {
    int ask[2], answer[2];
    EXPECT_EQ(::pipe(ask), 0);
    EXPECT_EQ(::pipe(answer), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      serve(database, options, ask[0], answer[1]);
    }
    ::close(ask[0]), ::close(answer[1]);
    ask_ = ask[1], answer_ = answer[0];
    EXPECT_EQ(read_answer(), 'y');
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() {
    kill(SIGKILL);
    ::close(ask_), ::close(answer_);
  }
  void send(int signal) const { ::kill(pid_, signal); }
  void kill(int signal) {
    if (pid_ <= 0) return;
    send(signal);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  /// 's': saves "a"; 'l': whether it holds the lease it had at first; 'q': ends as it should.
  char ask(char what) {
    EXPECT_EQ(::write(ask_, &what, 1), 1);
    return read_answer();
  }

 private:
  char read_answer() const {
    char word = 0;
    return ::read(answer_, &word, 1) == 1 ? word : '-';
  }
  [[noreturn]] static void serve(const std::string& database, const StoreOptions& options, int in,
                                 int out) {
    auto store = Store::open(database, options);
    const bool good = store && *(*store)->claim("a") && (*store)->save({"a", "saved", 1, 1});
    const auto say = [out](bool yes) {
      const char word = yes ? 'y' : 'n';
      if (::write(out, &word, 1) != 1) ::_exit(1);
    };
    say(good);
    char what = 0;
    while (::read(in, &what, 1) == 1) {
      const Lease lease = (*store)->lease();
      if (what == 'l') say(lease.held && lease.tenure == 1);
      if (what == 's') say((*store)->save({"a", "by the first", 2, 1}).ok());
      if (what != 'q') continue;
      store->reset();
      say(true);
    }
    ::_exit(0);
  }

  pid_t pid_ = -1;
  int ask_ = -1, answer_ = -1;
};

TEST_F(Postgres, AJobIsFreeAtOnceWhenItsOwnerIsKilledOnThisMachine) {
  ServerProcess owner(url_, server_options("http://killed"));
  const auto store = server("http://heir");
  EXPECT_FALSE(*store->claim("a"));
  EXPECT_EQ(*store->owner("a"), others("http://killed"));
  owner.kill(SIGKILL);
  EXPECT_EQ(*store->owner("a"), std::nullopt);
  EXPECT_THAT(error_of(store->save({"a", "not claimed", 2, 1})), HasSubstr("conflict: "));
  EXPECT_TRUE(*store->claim("a"));
  EXPECT_EQ((*store->job("a"))->state, "saved");
  EXPECT_OK(store->save({"a", "inherited", 2, 1}));
}

TEST_F(Postgres, AJobIsFreeAtOnceWhenItsOwnerEndsAsItShould) {
  ServerProcess owner(url_, server_options("http://first"));
  const auto store = server("http://heir");
  EXPECT_FALSE(*store->claim("a"));
  EXPECT_EQ(owner.ask('q'), 'y');
  EXPECT_TRUE(*store->claim("a"));
  EXPECT_EQ(server_.execute(database_, "SELECT count(*) FROM harpe_server"), "1");
}

TEST_F(Postgres, AServerThatIsStoppedLosesItsJobsOnceItsLeaseIsOverAndKnowsItWhenItWakes) {
  const LeaseTimes brief{.lease = 1_s, .beat = 0.1_s, .margin = 0.1_s};
  ServerProcess owner(url_, server_options("http://stopped", brief));
  const auto store = server("http://heir", brief);
  EXPECT_EQ(owner.ask('l'), 'y');
  owner.send(SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(becomes_true([&] { return store->claim("a")->has_value(); }));
  // It may have beaten just before it was stopped, and was seen for the first time then.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1000));
  EXPECT_OK(store->save({"a", "by the heir", 2, 1}));
  owner.send(SIGCONT);
  // It asks itself before it says anything.
  EXPECT_EQ(owner.ask('l'), 'n');
  EXPECT_EQ(owner.ask('s'), 'n');
  EXPECT_EQ((*store->job("a"))->state, "by the heir");
  EXPECT_EQ(*store->owner("a"), own("http://heir"));
  // And joins again under another name, so that it may have other jobs.
  EXPECT_TRUE(becomes_true(
      [&] { return server_.execute(database_, "SELECT count(*) FROM harpe_server") == "2"; }));
}

TEST_F(Postgres, AServerThatIsStoppedForLessKeepsItsJobs) {
  const LeaseTimes lease{.lease = 5_s, .beat = 0.1_s, .margin = 0.5_s};
  ServerProcess owner(url_, server_options("http://stopped", lease));
  const auto store = server("http://heir", lease);
  owner.send(SIGSTOP);
  // Longer than it takes a server to look at the others several times.
  const std::string beat = "SELECT beat FROM harpe_server WHERE url = 'http://heir'";
  const std::string before = server_.execute(database_, beat);
  EXPECT_TRUE(becomes_true(
      [&] { return std::stoi(server_.execute(database_, beat)) > std::stoi(before) + 5; }));
  EXPECT_FALSE(*store->claim("a"));
  owner.send(SIGCONT);
  EXPECT_EQ(owner.ask('l'), 'y');
  EXPECT_EQ(owner.ask('s'), 'y');
}

TEST_F(Postgres, ServersWhoseNumberIsNotKnownHereAreGivenTheirTime) {
  const auto store = server("http://heir");
  // A server of another machine that was lost.
  server_.execute(
      database_, "INSERT INTO harpe_server VALUES ('lost', 'http://lost', 7, 'boot', 'pid', 1, 1)");
  server_.execute(database_, "INSERT INTO harpe_owner VALUES ('a', 'lost', 3)");
  EXPECT_FALSE(*store->claim("a"));
  EXPECT_EQ(*store->owner("a"), others("http://lost"));
  // One that has given up leaves jobs that any server may have.
  server_.execute(database_, "DELETE FROM harpe_server WHERE server = 'lost'");
  EXPECT_EQ(*store->owner("a"), std::nullopt);
  EXPECT_EQ((*store->claim("a"))->epoch, 4);
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
  const auto one = opened(url_ + "&schema=one", server_options("http://one")),
             two = opened(url_ + "&schema=two", server_options("http://two"));
  Heard heard;
  EXPECT_OK(two->listen(heard.listener()));
  heard.wait_for(1);
  EXPECT_OK(one->save({"a", "one's", 1, 1}));
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
      ASSERT_TRUE(store) << store.error().text();
      EXPECT_OK((*store)->save({"job " + std::to_string(i), "state", 1, 1}));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(*another()->jobs(), SizeIs(6));
}

TEST_F(Postgres, ADatabaseThatGoesAwayForAWhileIsUnavailableAndThenGoesOn) {
  const auto store = server("http://me");
  Heard heard;
  EXPECT_OK(store->listen(heard.listener()));
  heard.wait_for(1);
  EXPECT_TRUE(*store->claim("a"));
  EXPECT_OK(store->save({"a", "before", 1, 1}, "plans"));
  server_.stop(SIGQUIT);
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(error_of(store->save({"a", "while", 2, 1})), HasSubstr("unavailable: "));
    EXPECT_THAT(error_of(store->jobs()), HasSubstr("unavailable: "));
    EXPECT_THAT(error_of(store->claim("b")), HasSubstr("unavailable: "));
    EXPECT_FALSE(store->check());
  }
  EXPECT_TRUE(store->lease().held) << "it was away for less than a lease";
  server_.start();
  EXPECT_TRUE(becomes_true([&] { return store->check().ok(); }));
  EXPECT_EQ((*store->job("a"))->state, "before");
  EXPECT_EQ(*store->plans("a"), "plans");
  EXPECT_EQ(*store->owner("a"), own("http://me"));
  EXPECT_OK(store->save({"a", "while", 2, 1}));
  EXPECT_FALSE(*server("http://other")->claim("a"));
  // What was announced meanwhile is gone, and the listener knows.
  EXPECT_THAT(texts_of(heard.wait_for(2)), ElementsAre("look again", "look again"));
  EXPECT_OK(store->notify("after"));
  EXPECT_EQ(heard.wait_for(3).back().text, "after");
}

TEST_F(Postgres, ConnectionsThatEndCostNoJobWhoeverIsFasterToConnectAgain) {
  const auto first = server("http://first"), second = server("http://second");
  EXPECT_TRUE(*first->claim("a"));
  end_all_connections();
  EXPECT_FALSE(*second->claim("a"));
  EXPECT_OK(first->save({"a", "state", 1, 1}));
  EXPECT_EQ(*second->owner("a"), others("http://first"));
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
/// other side open, as a network does that breaks, and let nothing through for a while.
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
    ::close(listening_);
    for (const auto& [client, server] : pairs_) ::close(client), ::close(server);
    for (const int fd : dead_) ::close(fd);
  }
  void break_connections() {
    breaking_ = true;
    while (breaking_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void let_through(bool yes) { cut_ = !yes; }

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
        for (const auto& [client, server] : pairs_) {
          ::close(client);
          dead_.push_back(server);
        }
        pairs_.clear();
        breaking_ = false;
      }
      std::vector<pollfd> ready{{listening_, POLLIN, 0}};
      for (const auto& [client, server] : pairs_) {
        ready.push_back({client, POLLIN, 0});
        ready.push_back({server, POLLIN, 0});
      }
      if (cut_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        continue;
      }
      if (::poll(ready.data(), ready.size(), 5) <= 0) continue;
      if (ready[0].revents != 0) accept_one();
      for (std::size_t i = (ready.size() - 1) / 2; i-- > 0;) {
        const auto [client, server] = pairs_[i];
        const bool good = (ready[1 + 2 * i].revents == 0 || pass(client, server)) &&
                          (ready[2 + 2 * i].revents == 0 || pass(server, client));
        if (good) continue;
        ::close(client), ::close(server);
        pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }

  void accept_one() {
    const int client = ::accept(listening_, nullptr, nullptr);
    const int server = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = address_of(target_);
    EXPECT_EQ(::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    pairs_.emplace_back(client, server);
  }

  static bool pass(int from, int to) {
    char buffer[4096];
    const ssize_t size = ::read(from, buffer, sizeof buffer);
    return size > 0 && ::write(to, buffer, static_cast<std::size_t>(size)) == size;
  }

  std::filesystem::path target_;
  int listening_ = -1;
  std::vector<std::pair<int, int>> pairs_;  ///< client and server
  std::vector<int> dead_;
  std::atomic<bool> stopping_ = false, breaking_ = false, cut_ = false;
  std::thread thread_;
};

TEST_F(Postgres, AServersLostConnectionCostsNoJobAndHoldsNothingUp) {
  const TestDirectory directory;
  BreakingNetwork network(directory.path(), server_.directory());
  const auto store = opened(server_.url(database_, "harpe", directory.path().string()),
                            server_options("http://me"));
  EXPECT_TRUE(*store->claim("a"));
  network.break_connections();
  // The database knows nothing of it: for it, the old connections are still there.
  EXPECT_TRUE(becomes_true([&] { return store->check().ok(); }));
  EXPECT_OK(store->save({"a", "state", 1, 1}));
  EXPECT_EQ(*store->owner("a"), own("http://me"));
  EXPECT_TRUE(*store->claim("a"));
  EXPECT_FALSE(*server("http://other")->claim("a"));
}

TEST_F(Postgres, AServerWithoutItsDatabaseHoldsNoLeaseBeforeAnotherMayHaveItsJobs) {
  const LeaseTimes brief{.lease = 1_s, .beat = 0.1_s, .margin = 0.1_s};
  const TestDirectory directory;
  BreakingNetwork network(directory.path(), server_.directory());
  const auto cut_off = opened(server_.url(database_, "harpe", directory.path().string()),
                              server_options("http://cut-off", brief));
  const auto other = server("http://other", brief);
  EXPECT_TRUE(*cut_off->claim("a"));
  EXPECT_TRUE(*cut_off->claim("b"));
  network.let_through(false);
  // What it says of itself is asked after the claim: had it changed its mind between, it would lie.
  const auto claimed_while_held = [&](const std::string& job) {
    return other->claim(job)->has_value() && cut_off->lease().held;
  };
  bool taken = false;
  EXPECT_TRUE(becomes_true([&] {
    EXPECT_FALSE(claimed_while_held("a"));
    taken = *other->owner("a") == own("http://other");
    return taken;
  }));
  EXPECT_EQ(cut_off->lease().tenure, 1) << "it cannot know";
  network.let_through(true);
  EXPECT_TRUE(becomes_true([&] { return cut_off->lease().held; }));
  EXPECT_EQ(cut_off->lease().tenure, 2) << "what it had is lost";
  EXPECT_EQ((*cut_off->claim("b"))->epoch, 2) << "no other has taken it";
  EXPECT_OK(cut_off->save({"b", "state", 1, 1}));
  EXPECT_FALSE(*cut_off->claim("a"));
}

TEST_F(Postgres, AServerThatNoOtherHasSeenGoKeepsItsJobsHoweverLongItWasCutOff) {
  const LeaseTimes brief{.lease = 0.5_s, .beat = 0.1_s, .margin = 0.1_s};
  const TestDirectory directory;
  BreakingNetwork network(directory.path(), server_.directory());
  const auto store = opened(server_.url(database_, "harpe", directory.path().string()),
                            server_options("http://me", brief));
  EXPECT_TRUE(*store->claim("a"));
  network.let_through(false);
  EXPECT_TRUE(becomes_true([&] { return !store->lease().held; }));
  network.let_through(true);
  EXPECT_TRUE(becomes_true([&] { return store->lease().held; }));
  EXPECT_EQ(store->lease().tenure, 1);
  EXPECT_OK(store->save({"a", "state", 1, 1}));
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
  const auto store = opened(server_.url(database_, "guest"), server_options("http://guest"));
  EXPECT_OK(store->save({"a", "state", 2, 1}));
  EXPECT_TRUE(*store->claim("a"));
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
