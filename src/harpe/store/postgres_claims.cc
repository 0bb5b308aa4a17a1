#include "harpe/store/postgres_claims.h"

#include <utility>
#include <vector>

namespace harpe {

Result<bool> PostgresClaims::claim(const std::string& job, const std::string& url) {
  if (const auto had = owned_.find(job); had != owned_.end()) {
    const auto still = session_.query(
        "UPDATE harpe_owner SET url = $2 WHERE job = $1 AND server = $3 AND number = $4::integer "
        "AND backend = pg_backend_pid()",
        {job, url, identity_, had->second.number});
    if (!still) return still.error();
    if (still->changed() == 1) {
      had->second.url = url;
      return true;
    }
    unlock(had->second.number);
    owned_.erase(had);
  }
  return take(job, url, false);
}

Result<bool> PostgresClaims::take(const std::string& job, const std::string& url, bool only_mine) {
  if (!only_mine) {
    const auto added = session_.query(
        "INSERT INTO harpe_owner (job) VALUES ($1) ON CONFLICT (job) DO NOTHING", {job});
    if (!added) return added.error();
  }
  const auto found = row(job);
  if (!found) return found.error();
  if (!*found || (only_mine && (*found)->server != identity_)) return false;
  const Row& owner = **found;
  Result<bool> locked = lock(owner);
  if (!locked || !*locked) return locked;
  // The row may be gone by now, or another's who has released it since: its number tells.
  const auto mine = session_.query(
      "UPDATE harpe_owner SET server = $2, url = $3, backend = pg_backend_pid() "
      "WHERE job = $1 AND number = $4::integer AND (server = $5 OR NOT $6::boolean)",
      {job, identity_, url, owner.number, identity_, std::int64_t{only_mine ? 1 : 0}});
  if (!mine || mine->changed() == 0) {
    unlock(owner.number);
    if (!mine) return mine.error();
    return false;
  }
  owned_[job] = {url, owner.number};
  return true;
}

Result<std::optional<PostgresClaims::Row>> PostgresClaims::row(const std::string& job) {
  const auto found =
      session_.query("SELECT number, server, backend FROM harpe_owner WHERE job = $1", {job});
  if (!found) return found.error();
  if (found->size() == 0) return std::optional<Row>();
  return std::optional(Row{found->integer(0, 0), found->text(0, 1), found->integer(0, 2)});
}

Result<bool> PostgresClaims::lock(const Row& row) {
  const auto try_lock = [&]() -> Result<bool> {
    const auto taken = session_.query(
        "SELECT pg_try_advisory_lock('harpe_owner'::regclass::oid::integer, $1::integer)",
        {row.number});
    if (!taken) return taken.error();
    return taken->truth(0, 0);
  };
  Result<bool> taken = try_lock();
  if (!taken || *taken || row.server != identity_) return taken;
  // This store's own session from before a broken connection, of which PostgreSQL does not know yet
  // that it is gone. Only where it holds this very lock: its number may be another's by now.
  const auto ended = session_.query(
      "SELECT pg_terminate_backend(pid, 2000) FROM pg_locks WHERE locktype = 'advisory' "
      "AND classid = 'harpe_owner'::regclass::oid AND objid = $1::integer::oid AND objsubid = 2 "
      "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
      "AND pid = $2::integer AND pid <> pg_backend_pid()",
      {row.number, row.backend});
  if (!ended) return ended.error();
  if (ended->size() == 0) return false;
  return try_lock();
}

void PostgresClaims::unlock(std::int64_t number) {
  // Where this fails the session is gone, and the lock with it.
  (void)session_.query(
      "SELECT pg_advisory_unlock('harpe_owner'::regclass::oid::integer, $1::integer)", {number});
}

Status PostgresClaims::release(const std::string& job) {
  const auto had = owned_.find(job);
  if (had == owned_.end()) return ok_status();
  const auto cleared = session_.query(
      "UPDATE harpe_owner SET server = '', url = '', backend = 0 WHERE job = $1 AND server = $2",
      {job, identity_});
  if (!cleared) return cleared.error();
  unlock(had->second.number);
  owned_.erase(had);
  return ok_status();
}

void PostgresClaims::release_all() {
  if (owned_.empty() || !session_.is_alive()) return;
  // Where this fails the end of the session does it.
  (void)session_.query(
      "UPDATE harpe_owner SET server = '', url = '', backend = 0 WHERE server = $1", {identity_});
  (void)session_.query("SELECT pg_advisory_unlock_all()");
  owned_.clear();
}

Result<std::map<std::string, std::string>> PostgresClaims::owners(const std::string* job) {
  const std::string all;
  const auto found = session_.query(
      "SELECT o.job, o.url FROM harpe_owner o JOIN pg_locks l ON l.locktype = 'advisory' "
      "AND l.classid = 'harpe_owner'::regclass::oid AND l.objid = o.number::oid AND l.objsubid = 2 "
      "AND l.granted AND l.pid = o.backend "
      "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
      "WHERE o.server <> '' AND (o.job = $1 OR $1 = '')",
      {job != nullptr ? *job : all});
  if (!found) return found.error();
  std::map<std::string, std::string> urls;
  for (int i = 0; i < found->size(); ++i) urls[found->text(i, 0)] = found->text(i, 1);
  return urls;
}

Result<std::vector<std::string>> PostgresClaims::ownerless() {
  const auto owned = owners(nullptr);
  if (!owned) return owned.error();
  const auto found = session_.query("SELECT id FROM harpe_job ORDER BY id");
  if (!found) return found.error();
  std::vector<std::string> ids;
  for (int i = 0; i < found->size(); ++i) {
    if (std::string id = found->text(i, 0); !owned->contains(id)) ids.push_back(std::move(id));
  }
  return ids;
}

Result<bool> PostgresClaims::fence(const std::string& job) {
  const auto found =
      session_.query("SELECT server FROM harpe_owner WHERE job = $1 FOR SHARE", {job});
  if (!found) return found.error();
  if (found->size() == 0) return true;
  const std::string server = found->text(0, 0);
  return server.empty() || server == identity_;
}

void PostgresClaims::forget(const std::string& job) {
  const auto had = owned_.find(job);
  if (had == owned_.end()) return;
  unlock(had->second.number);
  owned_.erase(had);
}

Status PostgresClaims::restore() {
  const std::map<std::string, Owned> before = std::exchange(owned_, {});
  for (auto next = before.begin(); next != before.end(); ++next) {
    const Result<bool> taken = take(next->first, next->second.url, true);
    if (taken) continue;
    // The connection is gone again: what is left is tried with the next one.
    owned_.insert(next, before.end());
    return taken.error();
  }
  return ok_status();
}

}  // namespace harpe
