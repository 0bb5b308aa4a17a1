#pragma once
/// \file
/// One database that several servers share, with faults of the database and of the servers: a real
/// PostgreSQL, and a model of it.

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "harpe/base/mutex.h"
#include "harpe/training/store/breaking_network_testing.h"
#include "harpe/training/store/postgres_testing.h"
#include "harpe/training/store/server_process_testing.h"
#include "harpe/training/store/simulated_store_testing.h"
#include "harpe/training/store/store_testing.h"

namespace harpe::training {

/// A server that runs separately from the test, on this machine, and has claimed and saved "a".
class OwnerProcess {
 public:
  virtual ~OwnerProcess() = default;
  virtual void kill() = 0;
  /// Ends orderly.
  virtual void end() = 0;
};

class SharedDatabase {
 public:
  virtual ~SharedDatabase() = default;
  virtual std::unique_ptr<Store> open(const StoreOptions& options) = 0;
  /// Opens a store over the network that the next functions control.
  virtual std::unique_ptr<Store> open_afar(const StoreOptions& options) = 0;
  /// Breaks the connections; only the stores notice.
  virtual void break_connections() = 0;
  virtual void let_through(bool yes) = 0;
  /// Holds back requests over existing connections until `deliver`. New connections work.
  virtual void hold_back() = 0;
  virtual void deliver() = 0;
  virtual void end_all_connections() = 0;
  /// Stops at once, as in a crash. Committed data remain.
  virtual void stop() = 0;
  virtual void start() = 0;
  virtual std::unique_ptr<OwnerProcess> start_owner(const StoreOptions& options) = 0;
  /// Adds a lost server "http://lost" of another machine, which owns "a". Returns the epoch.
  virtual std::int64_t add_lost_server() = 0;
  /// Removes the lost server, as if it had given up.
  virtual void remove_lost_server() = 0;
  /// Returns the number of member servers.
  virtual int servers() = 0;
};

class SharedPostgres final : public SharedDatabase {
 public:
  std::unique_ptr<Store> open(const StoreOptions& options) override {
    return opened(url_, options);
  }
  std::unique_ptr<Store> open_afar(const StoreOptions& options) override {
    // Not earlier: it has a thread, and a process that forks should have none.
    network_ = std::make_unique<BreakingNetwork>(directory_.path(), server_.directory());
    return opened(
        server_.url(database_, "harpe", directory_.path().string()) + "&application_name=afar",
        options);
  }
  void hold_back() override {
    held_back_ = server_.execute("postgres",
                                 "SELECT string_agg(pid::text, ',') FROM pg_stat_activity WHERE "
                                 "application_name = 'afar'");
    network_->hold_back();
  }
  void deliver() override {
    network_->deliver();
    // A database process whose client has given up executes its requests, and ends.
    const auto held = 1 + std::ranges::count(held_back_, ',');
    EXPECT_TRUE(eventually([&] {
      return std::stoi(server_.execute(
                 "postgres",
                 "SELECT count(*) FROM pg_stat_activity WHERE pid IN (" + held_back_ + ")")) < held;
    }));
  }
  void break_connections() override { network_->break_connections(); }
  void let_through(bool yes) override { network_->let_through(yes); }
  void end_all_connections() override { server_.end_all_connections(database_); }
  void stop() override { server_.stop(SIGQUIT); }
  void start() override { server_.start(); }

  std::unique_ptr<OwnerProcess> start_owner(const StoreOptions& options) override {
    class Owner final : public OwnerProcess {
     public:
      Owner(const std::string& url, const StoreOptions& options) : process_(url, options) {}
      void kill() override { process_.kill(SIGKILL); }
      void end() override { EXPECT_EQ(process_.ask('q'), 'y'); }

     private:
      ServerProcess process_;
    };
    return std::make_unique<Owner>(url_, options);
  }

  std::int64_t add_lost_server() override {
    execute("INSERT INTO harpe_server VALUES ('lost', 'http://lost', 7, 'boot', 'pid', 1, 1)");
    execute("INSERT INTO harpe_owner VALUES ('a', 'lost', 3)");
    return 3;
  }
  void remove_lost_server() override { execute("DELETE FROM harpe_server WHERE server = 'lost'"); }
  int servers() override { return std::stoi(execute("SELECT count(*) FROM harpe_server")); }

 private:
  std::string execute(const std::string& statement) {
    return server_.execute(database_, statement);
  }

  PostgresServer& server_ = PostgresServer::shared();
  const std::string database_ = server_.new_database();
  const std::string url_ = server_.url(database_);
  const TestDirectory directory_;
  std::unique_ptr<BreakingNetwork> network_;
  std::string held_back_;  ///< ids of database processes
};

/// Runs on threads and the clock of the system.
class SharedSimulation final : public SharedDatabase {
 public:
  SharedSimulation() {
    database_.on_call = [this](const StoreCall& call) { return fault_of(call); };
  }

  std::unique_ptr<Store> open(const StoreOptions& options) override {
    return opened(open_as(options, nullptr));
  }
  std::unique_ptr<Store> open_afar(const StoreOptions& options) override {
    {
      const MutexLock lock(mutex_);
      afar_ = options.url;
    }
    return opened(open_as(options, nullptr));
  }
  void break_connections() override {
    const MutexLock lock(mutex_);
    broken_ = {StoreCall::Line::kCalls, StoreCall::Line::kLease};
  }
  void let_through(bool yes) override {
    const MutexLock lock(mutex_);
    cut_ = !yes;
  }
  void hold_back() override {
    const MutexLock lock(mutex_);
    late_ = {StoreCall::Line::kCalls, StoreCall::Line::kLease};
  }
  void deliver() override { database_.execute_late(); }
  void end_all_connections() override { database_.restart(); }
  void stop() override {
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
    }
    database_.restart();
  }
  void start() override {
    const MutexLock lock(mutex_);
    stopped_ = false;
  }

  std::unique_ptr<OwnerProcess> start_owner(const StoreOptions& options) override {
    class Owner final : public OwnerProcess {
     public:
      Owner(SharedSimulation& simulation, const StoreOptions& options)
          : simulation_(simulation), url_(options.url) {
        store_ = opened(simulation_.open_as(options, [dead = dead_] { return dead->load(); }));
        EXPECT_TRUE(*store_->claim("a"));
        EXPECT_OK(save(*store_, {"a", "saved", 1, 1}));
      }
      void kill() override {
        *dead_ = true;
        simulation_.database_.process_ended(url_);
        store_.reset();
      }
      void end() override { store_.reset(); }

     private:
      SharedSimulation& simulation_;
      const std::string url_;
      const std::shared_ptr<std::atomic<bool>> dead_ = std::make_shared<std::atomic<bool>>(false);
      std::unique_ptr<Store> store_;
    };
    return std::make_unique<Owner>(*this, options);
  }

  std::int64_t add_lost_server() override {
    return database_.step([](SimulatedTables& tables) {
      tables.join("lost", {.url = "http://lost", .beat = 7, .machine = "another", .ended = true});
      EXPECT_TRUE(tables.add_owner("a", "lost"));
      return tables.owner("a")->epoch;
    });
  }
  void remove_lost_server() override {
    database_.step([](SimulatedTables& tables) { return tables.remove_server("lost", 7); });
  }
  int servers() override {
    return database_.step(
        [](SimulatedTables& tables) { return static_cast<int>(tables.servers().size()); });
  }

 private:
  Result<std::unique_ptr<Store>> open_as(StoreOptions options, std::function<bool()> dead) {
    // Threads end when they next wake up, which must not take long at the end of the test.
    options.lease.beat = std::min(options.lease.beat, 0.1_s);
    return SimulatedStore::open(
        database_, options,
        {.start_thread = [this](auto body) { threads_.start(std::move(body)); },
         .dead = std::move(dead),
         .machine = "here"});
  }

  StoreFault fault_of(const StoreCall& call) {
    using Outcome = StoreFault::Outcome;
    const MutexLock lock(mutex_);
    if (stopped_) return {.outcome = Outcome::kRefused};
    if (afar_.empty() || call.url != afar_) return {};
    if (cut_) return {.outcome = Outcome::kLostBefore};
    if (late_.erase(call.line) == 1) return {.outcome = Outcome::kLate};
    return {.outcome = broken_.erase(call.line) == 1 ? Outcome::kResetBefore : Outcome::kDone};
  }

  Mutex mutex_;  ///< for the members below
  std::string afar_ HARPE_GUARDED_BY(mutex_);
  std::set<StoreCall::Line> broken_ HARPE_GUARDED_BY(mutex_), late_ HARPE_GUARDED_BY(mutex_);
  bool cut_ HARPE_GUARDED_BY(mutex_) = false, stopped_ HARPE_GUARDED_BY(mutex_) = false;
  SimulatedDatabase database_;
  JoinedThreads threads_;
};

}  // namespace harpe::training
