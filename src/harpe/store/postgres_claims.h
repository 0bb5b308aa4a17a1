#pragma once
/// \file
/// Who owns which job, among several servers over one PostgreSQL.
///
/// Two things together. A row of `harpe_owner` says who may change a job: whoever writes locks it
/// (`fence`), so that a server that lost a job, and does not know yet, changes nothing any more. An
/// advisory lock of the owner's session says that it is there: PostgreSQL frees it when the session
/// ends, such as by kill -9, and only then another server gets the job. Not thread-safe.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harpe/store/postgres_session.h"

namespace harpe {

class PostgresClaims {
 public:
  /// `identity` tells this store from all others that ever were.
  PostgresClaims(PostgresSession& session, std::string identity)
      : session_(session), identity_(std::move(identity)) {}

  /// See Store. The session is connected.
  Result<bool> claim(const std::string& job, const std::string& url);
  Status release(const std::string& job);
  /// All of them, so that others need not wait until the session has ended.
  void release_all();
  Result<std::map<std::string, std::string>> owners(const std::string* job);
  Result<std::vector<std::string>> ownerless();

  /// Within a transaction: whether this store may change the job, which stays so until it ends.
  Result<bool> fence(const std::string& job);

  /// After the job's row was deleted.
  void forget(const std::string& job);

  /// In a new session: takes back what the one before owned, unless somebody else was faster.
  Status restore();

 private:
  struct Owned {
    std::string url;
    std::int64_t number = 0;  ///< of the advisory lock
  };
  struct Row {
    std::int64_t number = 0;
    std::string server;
    std::int64_t backend = 0;
  };

  Result<std::optional<Row>> row(const std::string& job);
  Result<bool> take(const std::string& job, const std::string& url, bool only_mine);
  Result<bool> lock(const Row& row);
  void unlock(std::int64_t number);

  PostgresSession& session_;
  const std::string identity_;
  std::map<std::string, Owned> owned_;
};

}  // namespace harpe
