#include "harpe/store/sqlite_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/store/checks.h"
#include "harpe/store/local_notices.h"
#include "harpe/store/owner_lock.h"
#include "harpe/store/sqlite_database.h"

namespace harpe {
namespace {

/// "Hrpe" in the header of the file tells Harpe's databases from others.
constexpr const char* kApplicationId = "1215459429";
constexpr const char* kSetApplicationId = "PRAGMA application_id = 1215459429";

class SqliteStore final : public Store {
 public:
  SqliteStore(OwnerLock lock, const std::string& path, const StoreOptions& options)
      : lock_(std::move(lock)), url_(options.url), database_(path, options.timeout) {}

  Status open(std::span<const Migration> steps);

  Result<std::vector<std::string>> write(const StoreChanges& changes) override;
  Result<std::vector<StoredJob>> jobs() override;
  Result<std::optional<StoredJob>> job(const std::string& id) override;
  Result<std::optional<std::string>> plans(const std::string& id) override;
  Status remove(const std::string& id, std::optional<std::int64_t> epoch) override;
  Result<std::vector<StoredEvent>> events(const std::string& job, std::int64_t after,
                                          int limit) override;
  Result<std::int64_t> prune(const Retention& keep) override;
  Result<std::optional<JobClaim>> claim(const std::string& job) override;
  Status release(const std::string& job) override;
  /// The lock of the file is all the lease it needs.
  Lease lease() const override { return {.held = true, .tenure = 1}; }
  Result<std::optional<JobOwner>> owner(const std::string& job) override;
  Result<std::map<std::string, std::string>> owners() override;
  Result<std::vector<std::string>> ownerless() override;
  Status notify(const std::string& text) override;
  Status listen(std::function<void(const StoreNotice&)> hear) override;
  Status check() override;
  std::string description() const override { return "SQLite " + database_.path(); }

 private:
  Status check_file();
  Status migrate(std::span<const Migration> steps);
  Status begin_epoch();
  /// Whether the job was written; all within a transaction.
  Result<bool> write_job(const JobSave& save);
  Status write_event(const StoredEvent& event);
  Result<std::vector<StoredJob>> read_jobs(const char* statement, const std::string* id);

  OwnerLock lock_;
  const std::string url_;
  std::mutex mutex_;  ///< of what follows
  SqliteDatabase database_;
  std::int64_t epoch_ = 0;  ///< of all claims
  std::set<std::string> owned_;
  LocalNotices notices_;
};

/// A new file is for its owner alone: what jobs say is nobody else's business.
Status create_private(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_EXCL, 0600);
  if (fd >= 0) ::close(fd);
  return ok_status();  // what went wrong is told when it is opened
}

Status SqliteStore::open(std::span<const Migration> steps) {
  (void)create_private(database_.path());
  if (Status opened = database_.open(); !opened) return opened;
  if (Status checked = check_file(); !checked) return checked;
  // The schema of a file that somebody else wrote must not call functions with side effects.
  for (const char* setting : {"PRAGMA trusted_schema = OFF", "PRAGMA cell_size_check = ON",
                              "PRAGMA temp_store = MEMORY", "PRAGMA synchronous = FULL"}) {
    if (Status done = database_.run(setting); !done) return done;
  }
  const Result<std::string> mode = database_.value("PRAGMA journal_mode = WAL");
  if (!mode) return mode.error();
  if (*mode != "wal") {
    return Error::io(database_.path(),
                     "cannot have a write-ahead log where it is (its file system "
                     "lacks shared memory); put it on a local disk");
  }
  if (Status migrated = migrate(steps); !migrated) return migrated;
  return begin_epoch();
}

Status SqliteStore::begin_epoch() {
  if (Status raised = database_.run("UPDATE server SET epoch = epoch + 1"); !raised) return raised;
  const Result<std::string> epoch = database_.value("SELECT epoch FROM server");
  if (!epoch) return epoch.error();
  epoch_ = parse_integer(*epoch).value_or(0);
  return ok_status();
}

/// Refuses what is damaged or of another program, before anything is changed in it.
Status SqliteStore::check_file() {
  const Result<std::string> application = database_.value("PRAGMA application_id");
  if (!application) return application.error();
  const Result<std::string> tables = database_.value("SELECT count(*) FROM sqlite_schema");
  if (!tables) return tables.error();
  if (*application != kApplicationId && (*tables != "0" || *application != "0")) {
    return Error::io(database_.path(), "is the database of another program; name another file");
  }
  const Result<std::string> whole = database_.value("PRAGMA quick_check(1)");
  if (!whole) return whole.error();
  if (*whole != "ok") {
    return Error::io(
        database_.path(),
        "is damaged: " + *whole +
            "; restore a backup, or save what can be read with: sqlite3 FILE .recover");
  }
  return ok_status();
}

Status SqliteStore::migrate(std::span<const Migration> steps) {
  SqliteTransaction transaction(database_);
  if (Status begun = transaction.begin(); !begun) return begun;
  const Result<std::string> said = database_.value("PRAGMA user_version");
  if (!said) return said.error();
  const std::int64_t version = parse_integer(*said).value_or(0);
  if (version < 0 || static_cast<std::size_t>(version) > steps.size()) {
    return newer_schema(database_.path(), static_cast<int>(version), steps.size());
  }
  if (static_cast<std::size_t>(version) == steps.size()) return ok_status();
  for (const Migration& step : steps.subspan(static_cast<std::size_t>(version))) {
    if (Status done = database_.run(step.sqlite); !done) return done;
  }
  const std::string set_version = "PRAGMA user_version = " + std::to_string(steps.size());
  if (Status done = database_.run(set_version.c_str()); !done) return done;
  if (Status done = database_.run(kSetApplicationId); !done) return done;
  return transaction.commit();
}

Result<std::vector<std::string>> SqliteStore::write(const StoreChanges& changes) {
  if (Status checked = check_changes(changes); !checked) return checked.error();
  const std::lock_guard lock(mutex_);
  SqliteTransaction transaction(database_);
  if (Status begun = transaction.begin(); !begun) return begun.error();
  std::set<std::string> refused;
  for (const JobSave& save : changes.jobs) {
    const Result<bool> written = write_job(save);
    if (!written) return written.error();
    if (!*written) refused.insert(save.job.id);
  }
  for (const StoredEvent& event : changes.events) {
    if (refused.contains(event.job)) continue;
    if (Status written = write_event(event); !written) return written.error();
  }
  if (Status committed = transaction.commit(); !committed) return committed.error();
  for (const std::string& notice : changes.notices) notices_.announce(notice);
  return std::vector<std::string>(refused.begin(), refused.end());
}

Result<bool> SqliteStore::write_job(const JobSave& save) {
  auto upsert = database_.prepare(
      "INSERT INTO job (id, state, revision, updated) VALUES (?1, ?2, ?3, ?4) "
      "ON CONFLICT (id) DO UPDATE SET state = excluded.state, revision = excluded.revision, "
      "updated = excluded.updated WHERE job.revision < excluded.revision OR "
      "(job.revision = excluded.revision AND job.state = excluded.state)");
  if (!upsert) return upsert.error();
  const StoredJob& job = save.job;
  upsert->bind(job.id).bind(job.state).bind(job.revision).bind(job.updated);
  const Result<std::int64_t> changed = upsert->run();
  if (!changed) return changed.error();
  if (*changed == 0) return false;
  if (save.plans) {
    auto plans = database_.prepare(
        "INSERT INTO plans (job, text) VALUES (?1, ?2) "
        "ON CONFLICT (job) DO UPDATE SET text = excluded.text");
    if (!plans) return plans.error();
    const Result<std::int64_t> written = plans->bind(job.id).bind(*save.plans).run();
    if (!written) return written.error();
  }
  return true;
}

Status SqliteStore::write_event(const StoredEvent& event) {
  auto insert = database_.prepare(
      "INSERT INTO event (job, at, kind, text) SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS "
      "(SELECT 1 FROM event WHERE job = ?1 AND at = ?2 AND kind = ?3 AND text = ?4)");
  if (!insert) return insert.error();
  const auto done = insert->bind(event.job).bind(event.at).bind(event.kind).bind(event.text).run();
  if (!done) return done.error();
  return ok_status();
}

Result<std::vector<StoredJob>> SqliteStore::read_jobs(const char* statement,
                                                      const std::string* id) {
  const std::lock_guard lock(mutex_);
  auto select = database_.prepare(statement);
  if (!select) return select.error();
  if (id != nullptr) select->bind(*id);
  std::vector<StoredJob> found;
  while (true) {
    const Result<bool> row = select->step();
    if (!row) return row.error();
    if (!*row) return found;
    found.push_back({select->text(0), select->text(1), select->integer(2), select->number(3)});
  }
}

Result<std::vector<StoredJob>> SqliteStore::jobs() {
  return read_jobs("SELECT id, state, revision, updated FROM job ORDER BY id", nullptr);
}

Result<std::optional<StoredJob>> SqliteStore::job(const std::string& id) {
  auto found = read_jobs("SELECT id, state, revision, updated FROM job WHERE id = ?1", &id);
  if (!found) return found.error();
  if (found->empty()) return std::optional<StoredJob>();
  return std::optional(std::move(found->front()));
}

Result<std::optional<std::string>> SqliteStore::plans(const std::string& id) {
  const std::lock_guard lock(mutex_);
  auto select = database_.prepare("SELECT text FROM plans WHERE job = ?1");
  if (!select) return select.error();
  const Result<bool> row = select->bind(id).step();
  if (!row) return row.error();
  return *row ? std::optional(select->text(0)) : std::nullopt;
}

Status SqliteStore::remove(const std::string& id, std::optional<std::int64_t> /*epoch*/) {
  if (Status checked = check_job_id(id); !checked) return checked;
  const std::lock_guard lock(mutex_);
  SqliteTransaction transaction(database_);
  if (Status begun = transaction.begin(); !begun) return begun;
  for (const char* statement : {"DELETE FROM job WHERE id = ?1", "DELETE FROM plans WHERE job = ?1",
                                "DELETE FROM event WHERE job = ?1"}) {
    auto prepared = database_.prepare(statement);
    if (!prepared) return prepared.error();
    if (const auto done = prepared->bind(id).run(); !done) return done.error();
  }
  if (Status committed = transaction.commit(); !committed) return committed;
  owned_.erase(id);
  return ok_status();
}

Result<std::vector<StoredEvent>> SqliteStore::events(const std::string& job, std::int64_t after,
                                                     int limit) {
  const std::lock_guard lock(mutex_);
  auto select = database_.prepare(
      "SELECT sequence, at, kind, text FROM event WHERE job = ?1 AND sequence > ?2 "
      "ORDER BY sequence LIMIT ?3");
  if (!select) return select.error();
  select->bind(job).bind(after).bind(std::int64_t{std::max(limit, 0)});
  std::vector<StoredEvent> found;
  while (true) {
    const Result<bool> row = select->step();
    if (!row) return row.error();
    if (!*row) return found;
    found.push_back({select->integer(0), select->number(1), job, select->text(2), select->text(3)});
  }
}

Result<std::int64_t> SqliteStore::prune(const Retention& keep) {
  const std::lock_guard lock(mutex_);
  SqliteTransaction transaction(database_);
  if (Status begun = transaction.begin(); !begun) return begun.error();
  auto old = database_.prepare("DELETE FROM event WHERE at < ?1");
  if (!old) return old.error();
  Result<std::int64_t> total = old->bind(keep.since).run();
  if (!total) return total;
  const std::int64_t most = std::max<std::int64_t>(keep.most_per_job, 0);
  auto full = database_.prepare("SELECT job FROM event GROUP BY job HAVING count(*) > ?1");
  if (!full) return full.error();
  full->bind(most);
  std::vector<std::string> jobs;
  while (true) {
    const Result<bool> row = full->step();
    if (!row) return row.error();
    if (!*row) break;
    jobs.push_back(full->text(0));
  }
  for (const std::string& job : jobs) {
    auto oldest = database_.prepare(
        "DELETE FROM event WHERE job = ?1 AND sequence <= (SELECT sequence FROM event "
        "WHERE job = ?1 ORDER BY sequence DESC LIMIT 1 OFFSET ?2)");
    if (!oldest) return oldest.error();
    const Result<std::int64_t> gone = oldest->bind(job).bind(most).run();
    if (!gone) return gone;
    *total += *gone;
  }
  if (Status committed = transaction.commit(); !committed) return committed.error();
  return total;
}

Result<std::optional<JobClaim>> SqliteStore::claim(const std::string& job) {
  if (Status checked = check_job_id(job); !checked) return checked.error();
  const std::lock_guard lock(mutex_);
  owned_.insert(job);
  return std::optional(JobClaim{.epoch = epoch_, .tenure = lease().tenure});
}

Status SqliteStore::release(const std::string& job) {
  const std::lock_guard lock(mutex_);
  owned_.erase(job);
  return ok_status();
}

Result<std::optional<JobOwner>> SqliteStore::owner(const std::string& job) {
  const std::lock_guard lock(mutex_);
  if (!owned_.contains(job)) return std::optional<JobOwner>();
  return std::optional(JobOwner{.url = url_, .own = true});
}

Result<std::map<std::string, std::string>> SqliteStore::owners() {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> urls;
  for (const std::string& job : owned_) urls[job] = url_;
  return urls;
}

Result<std::vector<std::string>> SqliteStore::ownerless() {
  const std::lock_guard lock(mutex_);
  auto select = database_.prepare("SELECT id FROM job ORDER BY id");
  if (!select) return select.error();
  std::vector<std::string> ids;
  for (;;) {
    const Result<bool> row = select->step();
    if (!row) return row.error();
    if (!*row) return ids;
    if (std::string id = select->text(0); !owned_.contains(id)) ids.push_back(std::move(id));
  }
}

Status SqliteStore::notify(const std::string& text) {
  if (Status checked = check_notice(text); !checked) return checked;
  notices_.announce(text);
  return ok_status();
}

Status SqliteStore::listen(std::function<void(const StoreNotice&)> hear) {
  notices_.listen(std::move(hear));
  return ok_status();
}

Status SqliteStore::check() {
  const std::lock_guard lock(mutex_);
  const Result<std::string> answer = database_.value("SELECT count(*) FROM sqlite_schema");
  if (!answer) return answer.error();
  return ok_status();
}

}  // namespace

Result<std::unique_ptr<Store>> open_sqlite_store(const std::string& path,
                                                 const StoreOptions& options,
                                                 std::span<const Migration> steps) {
  Result<OwnerLock> lock = OwnerLock::take(path, options.name);
  if (!lock) return lock.error();
  auto store = std::make_unique<SqliteStore>(*std::move(lock), path, options);
  if (Status opened = store->open(steps); !opened) return opened.error();
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace harpe
