#include "harpe/training/store/postgres_claims.h"

#include <utility>

namespace harpe {

Result<std::optional<JobClaim>> PostgresClaims::claim(const std::string& job) {
  if (lease_ == nullptr) return Error::invalid("a store without a URL claims no jobs");
  const PostgresLease::Member me = lease_->member();
  if (me.server.empty()) {
    return Error::of(ErrorCode::kUnavailable,
                     "this server has lost its lease and has not joined the others again yet");
  }
  const auto found = HARPE_TRY(row(job));
  Owned mine{.server = me.server, .epoch = 1};
  std::optional<PostgresRows> claimed;
  if (!found) {
    auto added =
        HARPE_TRY(session_.query("INSERT INTO harpe_owner (job, server, epoch) SELECT $1, $2, 1 "
                                 "WHERE EXISTS (SELECT 1 FROM harpe_server WHERE server = $2) "
                                 "ON CONFLICT (job) DO NOTHING",
                                 {job, me.server}));
    claimed.emplace(std::move(added));
  } else {
    const Row& before = *found;
    const bool already_mine = before.owned.server == me.server && before.server;
    if (already_mine && !doubtful_.contains(job)) {
      owned_[job] = before.owned;
      return std::optional(JobClaim{.epoch = before.owned.epoch, .tenure = me.tenure});
    }
    const bool free = HARPE_TRY(already_mine ? true : is_free(before));
    if (!free) return std::optional<JobClaim>();
    mine.epoch = before.owned.epoch + 1;
    auto replaced = HARPE_TRY(
        session_.query("UPDATE harpe_owner SET server = $2, epoch = $3::bigint "
                       "WHERE job = $1 AND server = $4 AND epoch = $5::bigint "
                       "AND EXISTS (SELECT 1 FROM harpe_server WHERE server = $2) "
                       "AND ($4 = $2 OR NOT EXISTS (SELECT 1 FROM harpe_server WHERE server = $4))",
                       {job, me.server, mine.epoch, before.owned.server, before.owned.epoch}));
    claimed.emplace(std::move(replaced));
  }
  if (claimed->changed() == 0) return std::optional<JobClaim>();
  owned_[job] = mine;
  doubtful_.erase(job);
  return std::optional(JobClaim{.epoch = mine.epoch, .tenure = me.tenure});
}

/// Whether no server owns the job; one whose lease is over is removed on the way.
Result<bool> PostgresClaims::is_free(const Row& row) {
  if (!row.server) return true;
  if (lease_ == nullptr) return false;
  return lease_->remove_if_over(session_, *row.server);
}

Result<std::optional<PostgresClaims::Row>> PostgresClaims::row(const std::string& job) {
  const std::string statement =
      std::string("SELECT o.server, o.epoch, ") + kServerColumns +
      " FROM harpe_owner o LEFT JOIN harpe_server s ON s.server = o.server WHERE o.job = $1";
  const auto found = HARPE_TRY(session_.query(statement.c_str(), {job}));
  if (found.size() == 0) return std::optional<Row>();
  Row row{.owned = {found.text(0, 0), found.integer(0, 1)}, .server = {}};
  if (ServerRow server = read_server(found, 0, 2); !server.seen.server.empty()) {
    row.server = std::move(server);
  }
  return std::optional(std::move(row));
}

bool PostgresClaims::is_mine(const Row& row) const {
  return lease_ != nullptr && row.owned.server == lease_->member().server;
}

Status PostgresClaims::release(const std::string& job) {
  const auto had = owned_.find(job);
  if (had == owned_.end()) return ok_status();
  doubt(job);
  HARPE_TRY(session_.query(
      "UPDATE harpe_owner SET server = '' WHERE job = $1 AND server = $2 AND epoch = $3::bigint",
      {job, had->second.server, had->second.epoch}));
  forget(job);
  return ok_status();
}

Result<std::optional<JobOwner>> PostgresClaims::owner(const std::string& job) {
  const auto found = HARPE_TRY(row(job));
  if (!found || !found->server) return std::optional<JobOwner>();
  const Row& owner = *found;
  if (is_mine(owner)) return std::optional(JobOwner{.url = owner.server->url, .own = true});
  const bool free = HARPE_TRY(is_free(owner));
  if (free) return std::optional<JobOwner>();
  return std::optional(JobOwner{.url = owner.server->url, .own = false});
}

Result<std::map<std::string, std::string>> PostgresClaims::owners() {
  const auto found = HARPE_TRY(session_.query(
      "SELECT o.job, s.url FROM harpe_owner o JOIN harpe_server s ON s.server = o.server"));
  std::map<std::string, std::string> urls;
  for (int i = 0; i < found.size(); ++i) urls[found.text(i, 0)] = found.text(i, 1);
  return urls;
}

Result<std::vector<std::string>> PostgresClaims::ownerless() {
  const auto found = HARPE_TRY(session_.query(
      "SELECT j.id FROM harpe_job j LEFT JOIN harpe_owner o ON o.job = j.id "
      "LEFT JOIN harpe_server s ON s.server = o.server WHERE s.server IS NULL ORDER BY j.id"));
  std::vector<std::string> ids;
  for (int i = 0; i < found.size(); ++i) ids.push_back(found.text(i, 0));
  return ids;
}

Result<bool> PostgresClaims::fence(const std::string& job, std::optional<std::int64_t> epoch) {
  const auto found = HARPE_TRY(
      session_.query("SELECT server, epoch FROM harpe_owner WHERE job = $1 FOR SHARE", {job}));
  if (found.size() == 0 || found.text(0, 0).empty()) return !epoch.has_value();
  const auto had = owned_.find(job);
  return had != owned_.end() && had->second.server == found.text(0, 0) &&
         epoch.value_or(had->second.epoch) == found.integer(0, 1);
}

}  // namespace harpe
