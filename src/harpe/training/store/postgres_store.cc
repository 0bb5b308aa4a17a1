
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/base/random_id.h"
#include "harpe/training/store/checks.h"
#include "harpe/training/store/postgres_lease.h"
#include "harpe/training/store/postgres_listener.h"
#include "harpe/training/store/postgres_session.h"
#include "harpe/training/store/sql_store.h"
#include "harpe/training/store/store.h"

namespace harpe::training {
namespace {

/// The advisory lock of servers that change the tables: "Harpe" in ASCII.
constexpr std::int64_t kMigrationLock = 0x4861727065;
/// A migration step may rewrite a large table.
constexpr Seconds kStepTimeout = 3600_s;

/// Returns the version of the tables, 0 if there are none. Needs no right to create tables.
Result<std::int64_t> version_of(PostgresSession& session) {
  const auto table = HARPE_TRY(session.query("SELECT to_regclass('harpe_schema') IS NOT NULL"));
  if (!table.truth(0, 0)) return std::int64_t{0};
  const auto version = HARPE_TRY(session.query("SELECT version FROM harpe_schema"));
  return version.size() == 1 ? version.integer(0, 0) : 0;
}

/// Migrates the tables in one transaction. Servers that start at the same time migrate in turn.
Status migrate(PostgresSession& session, std::span<const Migration> steps) {
  PostgresTransaction transaction(session);
  HARPE_TRY(transaction.begin());
  HARPE_TRY(session.script("SET LOCAL statement_timeout = 0", kStepTimeout));
  HARPE_TRY(session.query("SELECT pg_advisory_xact_lock($1::bigint)", {kMigrationLock}));
  const std::int64_t version = HARPE_TRY(version_of(session));
  if (version < 0 || static_cast<std::size_t>(version) > steps.size()) {
    return newer_schema(session.url().text, static_cast<int>(version), steps.size());
  }

  if (static_cast<std::size_t>(version) == steps.size()) return ok_status();
  if (version == 0) {
    const char* const table = "CREATE TABLE harpe_schema (version integer NOT NULL)";
    HARPE_TRY(session.script(table, kStepTimeout));
    HARPE_TRY(session.query("INSERT INTO harpe_schema VALUES (0)"));
  }

  for (const Migration& step : steps.subspan(static_cast<std::size_t>(version))) {
    HARPE_TRY(session.script(step.postgresql, kStepTimeout));
  }

  HARPE_TRY(session.query("UPDATE harpe_schema SET version = $1::integer",
                          {static_cast<std::int64_t>(steps.size())}));
  return transaction.commit();
}

/// The owners of jobs that several servers share in one PostgreSQL database. Not thread-safe.
///
/// A row of `harpe_owner` names the server and the epoch of its claim. The claim is valid while
/// that server has a row in `harpe_server` (postgres_lease.h). A new claim replaces, in one
/// statement, the server and epoch that were read, and only if that server no longer has a row. A
/// removed row never returns, so the check may be made at any time before. A write locks the job's
/// row (`fence`): a server that has lost a job and does not know it changes nothing. Claims do not
/// depend on a session: a lost and restored connection loses none.
class PostgresClaims {
 public:
  /// \param lease  must outlive this; null if the store claims no jobs
  PostgresClaims(PostgresSession& session, PostgresLease* lease)
      : session_(session), lease_(lease) {}

  // See `Store`. The session is connected.
  Result<std::optional<JobClaim>> claim(const std::string& job) {
    if (lease_ == nullptr) return Error::invalid("a store without a URL cannot claim jobs");
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
      auto replaced = HARPE_TRY(session_.query(
          "UPDATE harpe_owner SET server = $2, epoch = $3::bigint "
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

  Status release(const std::string& job) {
    const auto had = owned_.find(job);
    if (had == owned_.end()) return ok_status();
    doubt(job);
    HARPE_TRY(session_.query(
        "UPDATE harpe_owner SET server = '' WHERE job = $1 AND server = $2 AND epoch = $3::bigint",
        {job, had->second.server, had->second.epoch}));
    forget(job);
    return ok_status();
  }

  Result<std::optional<JobOwner>> owner(const std::string& job) {
    const auto found = HARPE_TRY(row(job));
    if (!found || !found->server) return std::optional<JobOwner>();
    const Row& owner = *found;
    if (is_mine(owner)) return std::optional(JobOwner{.url = owner.server->url, .own = true});
    const bool free = HARPE_TRY(is_free(owner));
    if (free) return std::optional<JobOwner>();
    return std::optional(JobOwner{.url = owner.server->url, .own = false});
  }

  Result<std::map<std::string, std::string>> owners() {
    const auto found = HARPE_TRY(session_.query(
        "SELECT o.job, s.url FROM harpe_owner o JOIN harpe_server s ON s.server = o.server"));
    std::map<std::string, std::string> urls;
    for (int i = 0; i < found.size(); ++i) urls[found.text(i, 0)] = found.text(i, 1);
    return urls;
  }

  Result<std::vector<std::string>> ownerless() {
    const auto found = HARPE_TRY(session_.query(
        "SELECT j.id FROM harpe_job j LEFT JOIN harpe_owner o ON o.job = j.id "
        "LEFT JOIN harpe_server s ON s.server = o.server WHERE s.server IS NULL ORDER BY j.id"));
    std::vector<std::string> ids;
    for (int i = 0; i < found.size(); ++i) ids.push_back(found.text(i, 0));
    return ids;
  }

  /// Returns true if this store may change the job until the transaction ends.
  /// \param epoch  of the claim; nullopt for the last claim, or for a job that no server owns
  Result<bool> fence(const std::string& job, std::optional<std::int64_t> epoch) {
    const auto found = HARPE_TRY(
        session_.query("SELECT server, epoch FROM harpe_owner WHERE job = $1 FOR SHARE", {job}));
    if (found.size() == 0 || found.text(0, 0).empty()) return !epoch.has_value();
    const auto had = owned_.find(job);
    return had != owned_.end() && had->second.server == found.text(0, 0) &&
           epoch.value_or(had->second.epoch) == found.integer(0, 1);
  }

  /// Marks the job. Call this before a request that gives it up: until the database responds, it
  /// may execute the request at any time, even long after the request seems lost. The next claim
  /// raises the epoch, so that such a request no longer matches.
  void doubt(const std::string& job) { doubtful_.insert(job); }
  /// Forgets the job after it was given up.
  void forget(const std::string& job) {
    owned_.erase(job);
    doubtful_.erase(job);
  }

 private:
  struct Owned {
    std::string server;
    std::int64_t epoch = 0;
  };
  /// A row of `harpe_owner`, and the row of its server if that exists.
  struct Row {
    Owned owned;
    std::optional<ServerRow> server;
  };

  Result<std::optional<Row>> row(const std::string& job) {
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

  /// Returns true if no server owns the job. Removes a server whose lease has expired.
  Result<bool> is_free(const Row& row) {
    if (!row.server) return true;
    if (lease_ == nullptr) return false;
    return lease_->remove_if_over(session_, *row.server);
  }

  bool is_mine(const Row& row) const {
    return lease_ != nullptr && row.owned.server == lease_->member().server;
  }

  PostgresSession& session_;
  PostgresLease* lease_;
  std::map<std::string, Owned> owned_;
  std::set<std::string> doubtful_;
};

class PostgresStore final : public SqlStore {
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

  Status open(std::span<const Migration> steps) {
    const MutexLock lock(mutex_);
    HARPE_TRY(session_.connect());
    HARPE_TRY(migrate(session_, steps));
    channel_ = HARPE_TRY(notification_channel(session_));
    return lease_ != nullptr ? lease_->start() : ok_status();
  }

  Result<std::vector<std::string>> write(const StoreChanges& changes) override {
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
    for (const std::string& id : touched) {  // in order, to avoid a deadlock of two servers
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

  Status remove(const std::string& id, std::optional<std::int64_t> epoch) override {
    HARPE_TRY(check_job_id(id));
    const MutexLock lock(mutex_);
    HARPE_TRY(ready());
    PostgresTransaction transaction(session_);
    HARPE_TRY(transaction.begin());
    const bool mine = HARPE_TRY(claims_.fence(id, epoch));
    if (!mine) {
      return Error::of(
          ErrorCode::kConflict,
          "job " + id + " belongs to another server: remove it there, or claim it first");
    }
    claims_.doubt(id);
    HARPE_TRY(remove_job(session_, id));
    // The row stays, so that the next claim of a job with this id has a higher epoch.
    HARPE_TRY(session_.execute("UPDATE harpe_owner SET server = '' WHERE job = $1", {id}));
    HARPE_TRY(transaction.commit());
    claims_.forget(id);
    return ok_status();
  }

  Result<std::int64_t> prune(const Retention& keep) override {
    HARPE_TRY(check_retention(keep));
    const MutexLock lock(mutex_);
    HARPE_TRY(ready());
    PostgresTransaction transaction(session_);
    HARPE_TRY(transaction.begin());
    const std::string me = lease_ != nullptr ? lease_->member().server : std::string();
    const std::int64_t total = HARPE_TRY(prune_events(session_, keep, &me));
    HARPE_TRY(transaction.commit());
    return total;
  }

  Result<std::optional<JobClaim>> claim(const std::string& job) override {
    HARPE_TRY(check_job_id(job));
    const MutexLock lock(mutex_);
    HARPE_TRY(ready());
    return claims_.claim(job);
  }

  Status release(const std::string& job) override {
    const MutexLock lock(mutex_);
    HARPE_TRY(ready());
    return claims_.release(job);
  }

  LeaseState lease() const override { return lease_ != nullptr ? lease_->state() : LeaseState(); }
  Result<std::optional<JobOwner>> owner(const std::string& job) override {
    HARPE_TRY(check_job_id(job));
    const MutexLock lock(mutex_);
    HARPE_TRY(ready());
    return claims_.owner(job);
  }

  Result<std::map<std::string, std::string>> owners() override {
    const MutexLock lock(mutex_);
    HARPE_TRY(ready());
    return claims_.owners();
  }

  Result<std::vector<std::string>> ownerless() override {
    const MutexLock lock(mutex_);
    HARPE_TRY(ready());
    return claims_.ownerless();
  }

  Status notify(const std::string& text) override {
    HARPE_TRY(check_notification(text));
    const MutexLock lock(mutex_);
    HARPE_TRY(ready());
    return announce(text);
  }

  Status listen(std::function<void(const StoreNotification&)> hear) override {
    const MutexLock lock(listening_);
    listener_.reset();
    if (!hear) return ok_status();
    listener_ = std::make_unique<PostgresListener>(url_, options_, identity_, std::move(hear));
    if (listener_->ok()) return ok_status();
    listener_.reset();
    return Error::of(ErrorCode::kUnavailable, "the system has no more file descriptors");
  }

  Status check() override {
    const MutexLock lock(mutex_);
    HARPE_TRY(ready());
    HARPE_TRY(session_.query("SELECT 1"));
    return ok_status();
  }

  Status verify() override { return ok_status(); }  // PostgreSQL has checksums of its own
  std::string description() const override { return "PostgreSQL " + url_.text; }

 private:
  using Time = std::chrono::steady_clock::time_point;

  /// Connects if there is no connection, at most once in `reconnect_pause`.
  Status ready() HARPE_REQUIRES(mutex_) {
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

  Result<SqlDatabase*> connected() HARPE_REQUIRES(mutex_) override {
    HARPE_TRY(ready());
    return &session_;
  }

  Status announce(const std::string& text) HARPE_REQUIRES(mutex_) {
    const std::string payload = identity_ + text;
    HARPE_TRY(session_.query("SELECT pg_notify($1, $2)", {channel_, payload}));
    return ok_status();
  }

  const StoreOptions options_;
  const StoreUrl url_;
  const std::string identity_;  ///< unique among stores; prefix of its notifications
  const std::unique_ptr<PostgresLease> lease_;  ///< null if the store claims no jobs
  PostgresSession session_ HARPE_GUARDED_BY(mutex_);
  PostgresClaims claims_ HARPE_GUARDED_BY(mutex_);
  std::string channel_ HARPE_GUARDED_BY(mutex_);
  std::optional<std::pair<Time, Error>> failed_
      HARPE_GUARDED_BY(mutex_);  ///< last failed attempt to connect
  Mutex listening_;              ///< guards `listener_`
  std::unique_ptr<PostgresListener> listener_ HARPE_GUARDED_BY(listening_);
};

}  // namespace

Result<std::unique_ptr<Store>> open_postgres_store(const StoreUrl& url, const StoreOptions& options,
                                                   std::span<const Migration> steps) {
  if (!is_storable(options.url)) return Error::invalid("the URL of the server is not UTF-8 text");
  auto store = std::make_unique<PostgresStore>(url, options);
  HARPE_TRY(store->open(steps));
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace harpe::training
