#pragma once
/// \file
/// Who owns which job, among several servers over one PostgreSQL.
///
/// A row of `harpe_owner` names the server and the epoch of its claim. It holds as long as that
/// server has a row in `harpe_server` (postgres_lease.h): a claim replaces, in one statement, the
/// server and epoch that were read, and only where that server has no row any more. Such a row
/// never comes back, so that it may have been looked for at any time before. A write locks the
/// job's row (`fence`): a server that lost a job, and does not know yet, changes nothing.
/// Nothing stands on a session: a connection that is lost and made again loses no claim. Not
/// thread-safe.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harpe/training/store/postgres_lease.h"
#include "harpe/training/store/postgres_session.h"
#include "harpe/training/store/store.h"

namespace harpe {

class PostgresClaims {
 public:
  /// \param lease  null: nothing is claimed; must outlive this
  PostgresClaims(PostgresSession& session, PostgresLease* lease)
      : session_(session), lease_(lease) {}

  /// See Store. The session is connected.
  Result<std::optional<JobClaim>> claim(const std::string& job);
  Status release(const std::string& job);
  Result<std::optional<JobOwner>> owner(const std::string& job);
  Result<std::map<std::string, std::string>> owners();
  Result<std::vector<std::string>> ownerless();

  /// Within a transaction: whether this store may change the job, which stays so until it ends.
  /// \param epoch  of the claim by which it changes it; none: the last one, or no server's
  Result<bool> fence(const std::string& job, std::optional<std::int64_t> epoch);

  /// Before a request that gives the job up: until it is answered it may be executed at any time,
  /// also when it is long thought lost. A claim then raises the epoch, which it does not find.
  void doubt(const std::string& job) { doubtful_.insert(job); }
  /// After the job was given up.
  void forget(const std::string& job) {
    owned_.erase(job);
    doubtful_.erase(job);
  }

 private:
  struct Owned {
    std::string server;
    std::int64_t epoch = 0;
  };
  /// A row of `harpe_owner`, with its server where that is there.
  struct Row {
    Owned owned;
    std::optional<ServerRow> server;
  };

  Result<std::optional<Row>> row(const std::string& job);
  Result<bool> is_free(const Row& row);
  bool is_mine(const Row& row) const;

  PostgresSession& session_;
  PostgresLease* lease_;
  std::map<std::string, Owned> owned_;
  std::set<std::string> doubtful_;
};

}  // namespace harpe
