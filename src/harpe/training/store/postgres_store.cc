#include "harpe/training/store/postgres_store.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "harpe/base/mutex.h"
#include "harpe/base/random_id.h"
#include "harpe/training/store/checks.h"
#include "harpe/training/store/postgres_changes.h"
#include "harpe/training/store/postgres_claims.h"
#include "harpe/training/store/postgres_lease.h"
#include "harpe/training/store/postgres_listener.h"
#include "harpe/training/store/postgres_migrations.h"
#include "harpe/training/store/postgres_session.h"

namespace harpe {
namespace {

/// 16 letters that no other store has had or will have: they begin its notifications.
class PostgresStore final : public Store {
 public:
  PostgresStore(const StoreUrl& url, const StoreOptions& options)
      : options_(options),
        url_(url),
        identity_(random_id(8)),
        lease_(options.url.empty() ? nullptr : std::make_unique<PostgresLease>(url, options)),
        session_(url, options.timeout),
        claims_(session_, lease_.get()) {}
  PostgresStore(const PostgresStore&) = delete;
  PostgresStore& operator=(const PostgresStore&) = delete;
  ~PostgresStore() override {
    listener_.reset();  // it may call this store
  }

  Status open(std::span<const Migration> steps);

  Result<std::vector<std::string>> write(const StoreChanges& changes) override;
  Result<std::vector<StoredJob>> jobs() override;
  Result<std::optional<StoredJob>> job(const std::string& id) override;
  Result<std::optional<std::string>> plans(const std::string& id) override;
  Result<std::map<std::string, std::string>> parts(const std::string& id) override;
  Result<std::vector<JobSummary>> summaries() override;
  Result<std::optional<JobSummary>> summary(const std::string& id) override;
  Result<std::optional<ClockMark>> clock() override;
  Status remove(const std::string& id, std::optional<std::int64_t> epoch) override;
  Result<std::vector<StoredEvent>> events(const std::string& job, std::int64_t after,
                                          int limit) override;
  Result<std::int64_t> prune(const Retention& keep) override;
  Result<std::optional<JobClaim>> claim(const std::string& job) override;
  Status release(const std::string& job) override;
  LeaseState lease() const override { return lease_ != nullptr ? lease_->state() : LeaseState(); }
  Result<std::optional<JobOwner>> owner(const std::string& job) override;
  Result<std::map<std::string, std::string>> owners() override;
  Result<std::vector<std::string>> ownerless() override;
  Status notify(const std::string& text) override;
  Status listen(std::function<void(const StoreNotification&)> hear) override;
  Status check() override;
  Status verify() override { return ok_status(); }  // PostgreSQL has checksums of its own
  std::string description() const override { return "PostgreSQL " + url_.text(); }

 private:
  using Time = std::chrono::steady_clock::time_point;

  /// Connects where there is no connection, at most once in a while.
  Status ready() HARPE_REQUIRES(mutex_);
  Status announce(const std::string& text) HARPE_REQUIRES(mutex_);

  const StoreOptions options_;
  const StoreUrl url_;
  const std::string identity_;
  const std::unique_ptr<PostgresLease> lease_;  ///< null: it claims nothing
  Mutex mutex_;                                 ///< of what follows
  PostgresSession session_ HARPE_GUARDED_BY(mutex_);
  PostgresClaims claims_ HARPE_GUARDED_BY(mutex_);
  std::string channel_ HARPE_GUARDED_BY(mutex_);
  std::optional<std::pair<Time, Error>> failed_
      HARPE_GUARDED_BY(mutex_);  ///< the last attempt to connect
  Mutex listening_;              ///< of what follows
  std::unique_ptr<PostgresListener> listener_ HARPE_GUARDED_BY(listening_);
};

Status PostgresStore::open(std::span<const Migration> steps) {
  const MutexLock lock(mutex_);
  HARPE_TRY(session_.connect());
  HARPE_TRY(migrate(session_, steps));
  channel_ = HARPE_TRY(notification_channel(session_));
  return lease_ != nullptr ? lease_->start() : ok_status();
}

Status PostgresStore::ready() {
  if (session_.is_alive()) return ok_status();
  const Time now = std::chrono::steady_clock::now();
  if (failed_ &&
      now - failed_->first < std::chrono::duration<double>(options_.reconnect_pause.value)) {
    return failed_->second;
  }
  Status done = session_.connect();
  if (!done.ok()) {
    failed_.emplace(std::chrono::steady_clock::now(), done.error());
    return done;
  }
  failed_.reset();
  return ok_status();
}

Result<std::vector<std::string>> PostgresStore::write(const StoreChanges& changes) {
  HARPE_TRY(check_changes(changes));
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  PostgresTransaction transaction(session_);
  HARPE_TRY(transaction.begin());

  std::set<std::string> touched, refused;
  for (const JobSave& save : changes.jobs) touched.insert(save.job.id);
  for (const JobSummary& summary : changes.summaries) touched.insert(summary.job);
  for (const StoredEvent& event : changes.events) touched.insert(event.job);
  touched.erase("");
  for (const std::string& id : touched) {  // in order, so that two servers do not wait in a circle
    const auto by = changes.epochs.find(id);
    const bool mine = HARPE_TRY(
        claims_.fence(id, by != changes.epochs.end() ? std::optional(by->second) : std::nullopt));
    if (!mine) refused.insert(id);
  }
  HARPE_TRY(write_changes(session_, changes, refused));
  for (const std::string& notification : changes.notifications) {
    HARPE_TRY(announce(notification));
  }
  HARPE_TRY(transaction.commit());
  return std::vector<std::string>(refused.begin(), refused.end());
}

Status PostgresStore::announce(const std::string& text) {
  const std::string payload = identity_ + text;
  HARPE_TRY(session_.query("SELECT pg_notify($1, $2)", {channel_, payload}));
  return ok_status();
}

Result<std::vector<StoredJob>> PostgresStore::jobs() {
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  return read_jobs(session_, nullptr);
}

Result<std::optional<StoredJob>> PostgresStore::job(const std::string& id) {
  HARPE_TRY(check_job_id(id));
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  auto found = HARPE_TRY(read_jobs(session_, &id));
  if (found.empty()) return std::optional<StoredJob>();
  return std::optional(std::move(found.front()));
}

Result<std::map<std::string, std::string>> PostgresStore::parts(const std::string& id) {
  HARPE_TRY(check_job_id(id));
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  return read_parts(session_, id);
}

Result<std::vector<JobSummary>> PostgresStore::summaries() {
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  return read_summaries(session_, nullptr);
}

Result<std::optional<JobSummary>> PostgresStore::summary(const std::string& id) {
  HARPE_TRY(check_job_id(id));
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  auto found = HARPE_TRY(read_summaries(session_, &id));
  if (found.empty()) return std::optional<JobSummary>();
  return std::optional(std::move(found.front()));
}

Result<std::optional<ClockMark>> PostgresStore::clock() {
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  return read_clock(session_);
}

Result<std::optional<std::string>> PostgresStore::plans(const std::string& id) {
  HARPE_TRY(check_job_id(id));
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  const auto rows = HARPE_TRY(session_.query("SELECT text FROM harpe_plans WHERE job = $1", {id}));
  return rows.size() == 1 ? std::optional(rows.text(0, 0)) : std::nullopt;
}

Status PostgresStore::remove(const std::string& id, std::optional<std::int64_t> epoch) {
  HARPE_TRY(check_job_id(id));
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  PostgresTransaction transaction(session_);
  HARPE_TRY(transaction.begin());
  const bool mine = HARPE_TRY(claims_.fence(id, epoch));
  if (!mine) {
    return Error::of(ErrorCode::kConflict,
                     "job " + id + " is another server's: remove it there, or claim it first");
  }
  claims_.doubt(id);
  HARPE_TRY(remove_job(session_, id));
  HARPE_TRY(transaction.commit());
  claims_.forget(id);
  return ok_status();
}

Result<std::vector<StoredEvent>> PostgresStore::events(const std::string& job, std::int64_t after,
                                                       int limit) {
  HARPE_TRY(check_subject(job));
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  const auto rows = HARPE_TRY(session_.query(
      "SELECT sequence, at, kind, text FROM harpe_event WHERE job = $1 AND sequence > $2::bigint "
      "ORDER BY sequence LIMIT $3::bigint",
      {job, after, std::int64_t{std::max(limit, 0)}}));
  std::vector<StoredEvent> found;
  for (int i = 0; i < rows.size(); ++i) {
    found.push_back({rows.integer(i, 0), rows.number(i, 1), job, rows.text(i, 2), rows.text(i, 3)});
  }
  return found;
}

Result<std::int64_t> PostgresStore::prune(const Retention& keep) {
  HARPE_TRY(check_retention(keep));
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  PostgresTransaction transaction(session_);
  HARPE_TRY(transaction.begin());
  const std::string me = lease_ != nullptr ? lease_->member().server : std::string();
  Result<std::int64_t> total = prune_events(session_, keep, me);
  if (!total.ok()) return total;
  HARPE_TRY(transaction.commit());
  return total;
}

Result<std::optional<JobClaim>> PostgresStore::claim(const std::string& job) {
  HARPE_TRY(check_job_id(job));
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  return claims_.claim(job);
}

Status PostgresStore::release(const std::string& job) {
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  return claims_.release(job);
}

Result<std::optional<JobOwner>> PostgresStore::owner(const std::string& job) {
  HARPE_TRY(check_job_id(job));
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  return claims_.owner(job);
}

Result<std::map<std::string, std::string>> PostgresStore::owners() {
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  return claims_.owners();
}

Result<std::vector<std::string>> PostgresStore::ownerless() {
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  return claims_.ownerless();
}

Status PostgresStore::notify(const std::string& text) {
  HARPE_TRY(check_notification(text));
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  return announce(text);
}

Status PostgresStore::listen(std::function<void(const StoreNotification&)> hear) {
  const MutexLock lock(listening_);
  listener_.reset();
  if (!hear) return ok_status();
  listener_ = std::make_unique<PostgresListener>(url_, options_, identity_, std::move(hear));
  if (listener_->ok()) return ok_status();
  listener_.reset();
  return Error::of(ErrorCode::kUnavailable, "the system gives no more file descriptors");
}

Status PostgresStore::check() {
  const MutexLock lock(mutex_);
  HARPE_TRY(ready());
  HARPE_TRY(session_.query("SELECT 1"));
  return ok_status();
}

}  // namespace

Result<std::unique_ptr<Store>> open_postgres_store(const StoreUrl& url, const StoreOptions& options,
                                                   std::span<const Migration> steps) {
  if (!is_storable(options.url)) return Error::invalid("the URL of the server is not UTF-8 text");
  auto store = std::make_unique<PostgresStore>(url, options);
  HARPE_TRY(store->open(steps));
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace harpe
