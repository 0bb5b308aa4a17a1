#pragma once
/// \file
/// The lease of a server in PostgreSQL: performs the steps of `ServerLease` on a thread and a
/// connection of its own, so that slow writes do not delay it.

#include <string>
#include <thread>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/training/store/postgres_session.h"
#include "harpe/training/store/process_identity.h"
#include "harpe/training/store/server_lease.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// Limit on the time of one statement as a fraction of the lease: two attempts then fit into the
/// rest.
inline constexpr double kShareOfStatement = 0.25;

/// A row of `harpe_server`.
struct ServerRow {
  SeenBeat seen;
  std::string url;
  ProcessIdentity process;
};

/// The columns of a row for `read_server`, which reads them from `first_column` on.
inline constexpr const char* kServerColumns =
    "s.server, s.beat, s.url, s.boot, s.namespaces, s.pid, s.started";
ServerRow read_server(const PostgresRows& rows, int row, int first_column = 0);

/// The lease of this server. Thread-safe.
class PostgresLease {
 public:
  PostgresLease(const StoreUrl& url, const StoreOptions& options);
  PostgresLease(const PostgresLease&) = delete;
  PostgresLease& operator=(const PostgresLease&) = delete;
  /// Gives up the lease, so that other servers need not wait for its end.
  ~PostgresLease();

  /// Joins the servers of the database. Call once.
  Status start();

  /// See Store.
  LeaseState state() const;
  /// The name under which this server claims jobs now.
  struct Member {
    std::string server;  ///< empty after its lease was lost, until it joins again
    std::uint64_t tenure = 0;
  };
  Member member() const;

  /// Removes a server that was just read over `session`, if allowed. Returns true if it was
  /// removed: its jobs are then free.
  Result<bool> remove_if_over(PostgresSession& session, const ServerRow& row);

 private:
  void run();
  /// Performs the steps that are due.
  Status step();
  Status execute(const LeaseStep& step);
  Status look(const std::string& me);
  Status tell(const Result<PostgresRows>& written);

  const StoreOptions options_;
  Clock& clock_;
  const ProcessIdentity process_ = ProcessIdentity::own();
  PostgresSession session_;  ///< used only by the thread

  mutable Mutex mutex_;  ///< protects the members below
  CondVar stop_;
  bool stopping_ HARPE_GUARDED_BY(mutex_) = false;
  ServerLease lease_ HARPE_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace harpe::training
