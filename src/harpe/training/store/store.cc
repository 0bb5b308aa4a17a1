#include "harpe/training/store/store.h"

#include <utility>

#include "harpe/training/store/postgres_store.h"
#include "harpe/training/store/sqlite_store.h"
#include "harpe/training/store/store_url.h"

namespace harpe {

Result<std::unique_ptr<Store>> Store::open(const std::string& url, const StoreOptions& options) {
  const StoreUrl parsed = HARPE_TRY(StoreUrl::parse(url));
  if (parsed.kind == StoreUrl::Kind::kSqlite) return open_sqlite_store(parsed.path, options);
  return open_postgres_store(parsed, options);
}

Status Store::save(const StoredJob& job, std::optional<std::string> plans) {
  const auto refused =
      HARPE_TRY(write({.jobs = {{job, std::move(plans)}}, .events = {}, .notifications = {}}));
  if (refused.empty()) return ok_status();
  return Error::of(ErrorCode::kConflict, "job " + job.id +
                                             " was changed by another server since: revision " +
                                             std::to_string(job.revision) + " is not saved");
}

Status Store::append(const StoredEvent& event) {
  const auto refused = HARPE_TRY(write({.jobs = {}, .events = {event}, .notifications = {}}));
  if (refused.empty()) return ok_status();
  return Error::of(ErrorCode::kConflict, "job " + event.job + " is another server's");
}

}  // namespace harpe
