#pragma once
/// \file
/// The lease of a server in a PostgreSQL: does what `ServerLease` says, on a thread and a
/// connection of its own, so that no slow write holds it up.

#include <string>
#include <thread>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/training/store/postgres_session.h"
#include "harpe/training/store/process_identity.h"
#include "harpe/training/store/server_lease.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// Of a lease that one statement may take: two attempts then fit into what is left of it.
inline constexpr double kShareOfStatement = 0.25;

/// A row of `harpe_server`.
struct ServerRow {
  SeenBeat seen;
  std::string url;
  ProcessIdentity process;
};

/// Its columns, for a row that `read_server` reads from that column on.
inline constexpr const char* kServerColumns =
    "s.server, s.beat, s.url, s.boot, s.namespaces, s.pid, s.started";
ServerRow read_server(const PostgresRows& rows, int row, int first_column = 0);

/// Thread-safe.
class PostgresLease {
 public:
  PostgresLease(const StoreUrl& url, const StoreOptions& options);
  PostgresLease(const PostgresLease&) = delete;
  PostgresLease& operator=(const PostgresLease&) = delete;
  /// Gives the lease up, so that others need not wait until it is over.
  ~PostgresLease();

  /// Joins the servers of the database. Call once.
  Status start();

  /// See Store.
  LeaseState state() const;
  /// Under which name this server claims now.
  struct Member {
    std::string server;  ///< empty: its lease was lost, and it has not joined again yet
    std::uint64_t tenure = 0;
  };
  Member member() const;

  /// Removes a server that was just read over `session`, if it may be: then its jobs are free.
  Result<bool> remove_if_over(PostgresSession& session, const ServerRow& row);

 private:
  void run();
  /// Does what is to be done now.
  Status step();
  Status execute(const LeaseStep& step);
  Status look(const std::string& me);
  Status tell(const Result<PostgresRows>& written);

  const StoreOptions options_;
  Clock& clock_;
  const ProcessIdentity process_ = ProcessIdentity::own();
  PostgresSession session_;  ///< of the thread

  mutable Mutex mutex_;  ///< of what follows
  CondVar stop_;
  bool stopping_ HARPE_GUARDED_BY(mutex_) = false;
  ServerLease lease_ HARPE_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace harpe::training
