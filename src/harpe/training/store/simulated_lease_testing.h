#pragma once
/// \file
/// The lease of a server in a `SimulatedDatabase`: PostgresLease, with a given clock.

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/mutex.h"
#include "harpe/training/store/postgres_lease.h"
#include "harpe/training/store/server_lease.h"
#include "harpe/training/store/simulated_session_testing.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// Thread-safe. Its thread keeps it alive until it next wakes up.
class SimulatedLease : public std::enable_shared_from_this<SimulatedLease> {
 public:
  using Server = SimulatedTables::Server;
  using Member = PostgresLease::Member;

  SimulatedLease(SimulatedDatabase& database, StoreProcess process, const StoreOptions& options)
      : options_(options),
        process_(std::move(process)),
        clock_(*options.clock),
        session_(database, process_, clock_, options.url, StoreCall::Line::kLease,
                 std::min(options.timeout, options.lease.lease * kShareOfStatement)),
        lease_(options.lease,
               [&database] { return "server " + std::to_string(database.new_number()); }) {}
  SimulatedLease(const SimulatedLease&) = delete;
  SimulatedLease& operator=(const SimulatedLease&) = delete;

  /// Joins the servers of the database. Call once.
  Status start() {
    if (Status done = step(); !done.ok()) return done;
    process_.start_thread([self = shared_from_this()] { self->run(); });
    return ok_status();
  }

  /// Releases the lease. Call last.
  void stop() {
    MutexLock lock(mutex_);
    stopping_ = true;
    while (stepping_) {
      lock.unlock();
      clock_.sleep_until(clock_.now() + kSimulatedTick);
      lock.lock();
    }
    const std::string server = lease_.server();
    lock.unlock();
    if (server.empty()) return;
    // If this fails, the lease expires by itself.
    if (!session_.is_alive() && !session_.connect().ok()) return;
    (void)session_.run(StoreCall::Kind::kLeave, [server](SimulatedTables& tables) {
      tables.leave(server);
      return std::monostate();
    });
  }

  /// See Store. Uses the time of this moment.
  LeaseState state() const {
    const MutexLock lock(mutex_);
    return {.held = lease_.held(clock_.now()), .tenure = lease_.tenure()};
  }
  Member member() const {
    const MutexLock lock(mutex_);
    return {.server = lease_.server(), .tenure = lease_.tenure()};
  }

  /// Removes a server just read over `session` if its lease is over. Its jobs are then free.
  Result<bool> remove_if_over(SimulatedSession& session, const std::string& server,
                              const Server& row) {
    const SeenBeat seen = seen_of(server, row);
    {
      const MutexLock lock(mutex_);
      if (!lease_.may_remove(seen, clock_.now())) return false;
    }
    return session.run(StoreCall::Kind::kRemoveServer, [seen](SimulatedTables& tables) {
      return tables.remove_server(seen.server, seen.beat);
    });
  }

 private:
  void run() {
    bool good = true;
    while (true) {
      const Instant now = clock_.now();
      Instant wake = now + options_.reconnect_pause;
      if (good) {
        const MutexLock lock(mutex_);
        wake = lease_.wake(now);
      }
      clock_.sleep_until(wake);
      {
        const MutexLock lock(mutex_);
        if (stopping_ || process_.is_dead()) return;
        stepping_ = true;
      }
      const Stepping until_done(*this);
      good = step().ok();
    }
  }

  /// Marks the end of a step, however it ends.
  class Stepping {
   public:
    explicit Stepping(SimulatedLease& lease) : lease_(lease) {}
    Stepping(const Stepping&) = delete;
    Stepping& operator=(const Stepping&) = delete;
    ~Stepping() {
      const MutexLock lock(lease_.mutex_);
      lease_.stepping_ = false;
    }

   private:
    SimulatedLease& lease_;
  };

  /// Executes the steps that are due.
  Status step() {
    if (!session_.is_alive()) {
      if (Status connected = session_.connect(); !connected.ok()) return connected;
    }
    while (true) {
      MutexLock lock(mutex_);
      const std::optional<LeaseStep> next = lease_.next(clock_.now());
      lock.unlock();
      if (!next) return ok_status();
      if (Status done = execute(*next); !done.ok()) return done;
    }
  }

  Status execute(const LeaseStep& step) {
    using Kind = StoreCall::Kind;
    switch (step.kind) {
      case LeaseStep::Kind::kJoin:
        return tell(session_.run(
            Kind::kJoin,
            [server = step.server, row = Server{.url = options_.url, .machine = process_.machine}](
                SimulatedTables& tables) {
              tables.join(server, row);
              return true;
            }));
      case LeaseStep::Kind::kRenew:
        return tell(session_.run(
            Kind::kRenew, [step](SimulatedTables& tables) { return tables.renew(step.server); }));
      case LeaseStep::Kind::kRemove:
        return tell(session_.run(Kind::kRemoveServer, [step](SimulatedTables& tables) {
          return tables.remove_server(step.server, step.beat);
        }));
      case LeaseStep::Kind::kLook:
        break;
    }
    return look(step.server);
  }

  Status tell(const Result<bool>& written) {
    const MutexLock lock(mutex_);
    if (!written.ok()) {
      lease_.failed();
      return written.error();
    }
    lease_.written(*written);
    return ok_status();
  }

  Status look(const std::string& me) {
    const auto rows = session_.run(StoreCall::Kind::kLook,
                                   [](SimulatedTables& tables) { return tables.servers(); });
    if (!rows.ok()) return tell(rows.error());
    std::vector<SeenBeat> seen;
    for (const auto& [server, row] : *rows) {
      if (server != me) seen.push_back(seen_of(server, row));
    }
    const MutexLock lock(mutex_);
    lease_.looked(seen, clock_.now());
    return ok_status();
  }

  SeenBeat seen_of(const std::string& server, const Server& row) const {
    const bool here = !row.machine.empty() && row.machine == process_.machine;
    return {.server = server, .beat = row.beat, .gone = here && row.ended};
  }

  const StoreOptions options_;
  const StoreProcess process_;
  Clock& clock_;
  SimulatedSession session_;  ///< used by the thread, and by `stop` after the thread's last step

  mutable Mutex mutex_;  ///< for the members below; never held over a sleep
  bool stopping_ HARPE_GUARDED_BY(mutex_) = false, stepping_ HARPE_GUARDED_BY(mutex_) = false;
  ServerLease lease_ HARPE_GUARDED_BY(mutex_);
};

}  // namespace harpe::training
