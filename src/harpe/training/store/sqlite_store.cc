#include "harpe/training/store/sqlite_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "harpe/base/check.h"
#include "harpe/base/mutex.h"
#include "harpe/base/text.h"
#include "harpe/training/store/checks.h"
#include "harpe/training/store/local_notifications.h"
#include "harpe/training/store/owner_lock.h"
#include "harpe/training/store/sqlite_changes.h"
#include "harpe/training/store/sqlite_database.h"

namespace harpe {
namespace {

/// "Hrpe" in the header of the file tells Harpe's databases from others.
constexpr const char* kApplicationId = "1215459429";
constexpr const char* kSetApplicationId = "PRAGMA application_id = 1215459429";
/// A file of this size is read in parts of a second.
constexpr std::uintmax_t kCheckedWhenOpened = 64 * 1024 * 1024;

class SqliteStore final : public Store {
 public:
  SqliteStore(OwnerLock lock, const std::string& path, const StoreOptions& options)
      : timeout_(options.timeout),
        lock_(std::move(lock)),
        url_(options.url),
        path_(path),
        database_(path, options.timeout) {}

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
  /// The lock of the file is all the lease it needs.
  LeaseState lease() const override { return {.held = true, .tenure = 1}; }
  Result<std::optional<JobOwner>> owner(const std::string& job) override;
  Result<std::map<std::string, std::string>> owners() override;
  Result<std::vector<std::string>> ownerless() override;
  Status notify(const std::string& text) override;
  Status listen(std::function<void(const StoreNotification&)> hear) override;
  Status check() override;
  Status verify() override;
  std::string description() const override { return "SQLite " + path_; }

 private:
  Status check_file() HARPE_REQUIRES(mutex_);
  Status check_pages(SqliteDatabase& database) const;
  Status migrate(std::span<const Migration> steps) HARPE_REQUIRES(mutex_);
  Status begin_epoch() HARPE_REQUIRES(mutex_);
  void check_claim(std::int64_t epoch) const HARPE_REQUIRES(mutex_);

  const Seconds timeout_;
  OwnerLock lock_;
  const std::string url_;
  const std::string path_;
  Mutex mutex_;  ///< of what follows
  SqliteDatabase database_ HARPE_GUARDED_BY(mutex_);
  std::int64_t epoch_ HARPE_GUARDED_BY(mutex_) = 0;  ///< of all claims
  std::set<std::string> owned_ HARPE_GUARDED_BY(mutex_);
  LocalNotifications notifications_;
};

/// A new file is for its owner alone: what jobs say is not for other users.
Status create_private(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_EXCL, 0600);
  if (fd >= 0) ::close(fd);
  return ok_status();  // what went wrong is said when it is opened
}

Status SqliteStore::open(std::span<const Migration> steps) {
  const MutexLock lock(mutex_);
  (void)create_private(path_);
  HARPE_TRY(database_.open());
  HARPE_TRY(check_file());
  // The schema of a file that another program wrote must not call functions with side effects.
  for (const char* setting : {"PRAGMA trusted_schema = OFF", "PRAGMA cell_size_check = ON",
                              "PRAGMA temp_store = MEMORY", "PRAGMA synchronous = FULL"}) {
    HARPE_TRY(database_.run(setting));
  }
  const std::string mode = HARPE_TRY(database_.value("PRAGMA journal_mode = WAL"));
  if (mode != "wal") {
    return Error::io(path_,
                     "cannot have a write-ahead log where it is (its file system "
                     "lacks shared memory); put it on a local disk");
  }
  HARPE_TRY(migrate(steps));
  return begin_epoch();
}

Status SqliteStore::begin_epoch() {
  HARPE_TRY(database_.run("UPDATE server SET epoch = epoch + 1"));
  const std::string epoch = HARPE_TRY(database_.value("SELECT epoch FROM server"));
  epoch_ = parse_integer(epoch).value_or(0);
  if (epoch_ > 0) return ok_status();
  return Error::io(path_, "is damaged: it does not say how often it was opened");
}

/// Every claim is from this opening of the file or from one before.
void SqliteStore::check_claim(std::int64_t epoch) const {
  HARPE_CHECK(epoch <= epoch_, "a job is changed by a claim that its store gave");
}

/// Refuses what is damaged or of another program, before anything is changed in it.
Status SqliteStore::check_file() {
  const std::string application = HARPE_TRY(database_.value("PRAGMA application_id"));
  const std::string tables = HARPE_TRY(database_.value("SELECT count(*) FROM sqlite_schema"));
  if (application != kApplicationId && (tables != "0" || application != "0")) {
    return Error::io(path_, "is the database of another program; name another file");
  }
  std::error_code unknown;
  const auto size = std::filesystem::file_size(path_, unknown);
  if (!unknown && size > kCheckedWhenOpened) return ok_status();  // `verify` does it
  return check_pages(database_);
}

Status SqliteStore::check_pages(SqliteDatabase& database) const {
  const std::string whole = HARPE_TRY(database.value("PRAGMA quick_check(1)"));
  if (whole != "ok") {
    return Error::io(
        path_, "is damaged: " + whole +
                   "; restore a backup, or save what can be read with: sqlite3 FILE .recover");
  }
  return ok_status();
}

Status SqliteStore::migrate(std::span<const Migration> steps) {
  SqliteTransaction transaction(database_);
  HARPE_TRY(transaction.begin());
  const std::string said = HARPE_TRY(database_.value("PRAGMA user_version"));
  const std::int64_t version = parse_integer(said).value_or(0);
  if (version < 0 || static_cast<std::size_t>(version) > steps.size()) {
    return newer_schema(path_, static_cast<int>(version), steps.size());
  }
  if (static_cast<std::size_t>(version) == steps.size()) return ok_status();
  for (const Migration& step : steps.subspan(static_cast<std::size_t>(version))) {
    HARPE_TRY(database_.run(step.sqlite));
  }
  const std::string set_version = "PRAGMA user_version = " + std::to_string(steps.size());
  HARPE_TRY(database_.run(set_version.c_str()));
  HARPE_TRY(database_.run(kSetApplicationId));
  return transaction.commit();
}

Result<std::vector<std::string>> SqliteStore::write(const StoreChanges& changes) {
  HARPE_TRY(check_changes(changes));
  const MutexLock lock(mutex_);
  for (const auto& [job, epoch] : changes.epochs) check_claim(epoch);
  SqliteTransaction transaction(database_);
  HARPE_TRY(transaction.begin());
  auto refused = write_changes(database_, changes);
  if (!refused.ok()) return refused.error();
  HARPE_TRY(transaction.commit());
  for (const std::string& notification : changes.notifications)
    notifications_.announce(notification);
  return refused;
}

Result<std::vector<StoredJob>> SqliteStore::jobs() {
  const MutexLock lock(mutex_);
  return read_jobs(database_, nullptr);
}

Result<std::optional<StoredJob>> SqliteStore::job(const std::string& id) {
  HARPE_TRY(check_job_id(id));
  const MutexLock lock(mutex_);
  auto found = HARPE_TRY(read_jobs(database_, &id));
  if (found.empty()) return std::optional<StoredJob>();
  return std::optional(std::move(found.front()));
}

Result<std::optional<std::string>> SqliteStore::plans(const std::string& id) {
  HARPE_TRY(check_job_id(id));
  const MutexLock lock(mutex_);
  auto select = HARPE_TRY(database_.prepare("SELECT text FROM plans WHERE job = ?1"));
  const bool row = HARPE_TRY(select.bind(id).step());
  return row ? std::optional(select.text(0)) : std::nullopt;
}

Result<std::map<std::string, std::string>> SqliteStore::parts(const std::string& id) {
  HARPE_TRY(check_job_id(id));
  const MutexLock lock(mutex_);
  return read_parts(database_, id);
}

Result<std::vector<JobSummary>> SqliteStore::summaries() {
  const MutexLock lock(mutex_);
  return read_summaries(database_, nullptr);
}

Result<std::optional<JobSummary>> SqliteStore::summary(const std::string& id) {
  HARPE_TRY(check_job_id(id));
  const MutexLock lock(mutex_);
  auto found = HARPE_TRY(read_summaries(database_, &id));
  if (found.empty()) return std::optional<JobSummary>();
  return std::optional(std::move(found.front()));
}

Result<std::optional<ClockMark>> SqliteStore::clock() {
  const MutexLock lock(mutex_);
  return read_clock(database_);
}

Status SqliteStore::remove(const std::string& id, std::optional<std::int64_t> epoch) {
  HARPE_TRY(check_job_id(id));
  const MutexLock lock(mutex_);
  if (epoch) check_claim(*epoch);
  SqliteTransaction transaction(database_);
  HARPE_TRY(transaction.begin());
  HARPE_TRY(remove_job(database_, id));
  HARPE_TRY(transaction.commit());
  owned_.erase(id);
  return ok_status();
}

Result<std::vector<StoredEvent>> SqliteStore::events(const std::string& job, std::int64_t after,
                                                     int limit) {
  HARPE_TRY(check_subject(job));
  const MutexLock lock(mutex_);
  auto select = HARPE_TRY(database_.prepare(
      "SELECT sequence, at, kind, text FROM event WHERE job = ?1 AND sequence > ?2 "
      "ORDER BY sequence LIMIT ?3"));
  select.bind(job).bind(after).bind(std::int64_t{std::max(limit, 0)});
  std::vector<StoredEvent> found;
  while (true) {
    const bool row = HARPE_TRY(select.step());
    if (!row) return found;
    found.push_back({select.integer(0), select.number(1), job, select.text(2), select.text(3)});
  }
}

Result<std::int64_t> SqliteStore::prune(const Retention& keep) {
  HARPE_TRY(check_retention(keep));
  const MutexLock lock(mutex_);
  SqliteTransaction transaction(database_);
  HARPE_TRY(transaction.begin());
  Result<std::int64_t> total = prune_events(database_, keep);
  if (!total.ok()) return total;
  HARPE_TRY(transaction.commit());
  return total;
}

Result<std::optional<JobClaim>> SqliteStore::claim(const std::string& job) {
  HARPE_TRY(check_job_id(job));
  const MutexLock lock(mutex_);
  owned_.insert(job);
  return std::optional(JobClaim{.epoch = epoch_, .tenure = lease().tenure});
}

Status SqliteStore::release(const std::string& job) {
  const MutexLock lock(mutex_);
  owned_.erase(job);
  return ok_status();
}

Result<std::optional<JobOwner>> SqliteStore::owner(const std::string& job) {
  HARPE_TRY(check_job_id(job));
  const MutexLock lock(mutex_);
  if (!owned_.contains(job)) return std::optional<JobOwner>();
  return std::optional(JobOwner{.url = url_, .own = true});
}

Result<std::map<std::string, std::string>> SqliteStore::owners() {
  const MutexLock lock(mutex_);
  std::map<std::string, std::string> urls;
  for (const std::string& job : owned_) urls[job] = url_;
  return urls;
}

Result<std::vector<std::string>> SqliteStore::ownerless() {
  const MutexLock lock(mutex_);
  auto select = HARPE_TRY(database_.prepare("SELECT id FROM job ORDER BY id"));
  std::vector<std::string> ids;
  for (;;) {
    const bool row = HARPE_TRY(select.step());
    if (!row) return ids;
    if (std::string id = select.text(0); !owned_.contains(id)) ids.push_back(std::move(id));
  }
}

Status SqliteStore::notify(const std::string& text) {
  HARPE_TRY(check_notification(text));
  notifications_.announce(text);
  return ok_status();
}

Status SqliteStore::listen(std::function<void(const StoreNotification&)> hear) {
  notifications_.listen(std::move(hear));
  return ok_status();
}

Status SqliteStore::check() {
  const MutexLock lock(mutex_);
  HARPE_TRY(database_.value("SELECT count(*) FROM sqlite_schema"));
  return ok_status();
}

Status SqliteStore::verify() {
  // Over a connection of its own: it may take minutes.
  SqliteDatabase database(path_, timeout_);
  HARPE_TRY(database.open());
  return check_pages(database);
}

}  // namespace

Result<std::unique_ptr<Store>> open_sqlite_store(const std::string& path,
                                                 const StoreOptions& options,
                                                 std::span<const Migration> steps) {
  OwnerLock lock = HARPE_TRY(OwnerLock::take(path, options.name));
  auto store = std::make_unique<SqliteStore>(std::move(lock), path, options);
  HARPE_TRY(store->open(steps));
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace harpe
