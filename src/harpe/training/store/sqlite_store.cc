
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "harpe/base/check.h"
#include "harpe/base/mutex.h"
#include "harpe/base/result.h"
#include "harpe/base/text.h"
#include "harpe/base/unique_fd.h"
#include "harpe/training/store/checks.h"
#include "harpe/training/store/sql_store.h"
#include "harpe/training/store/sqlite_database.h"
#include "harpe/training/store/store.h"

namespace harpe::training {
namespace {

/// "Hrpe" in the header of the file identifies Harpe's databases.
constexpr const char* kApplicationId = "1215459429";
constexpr const char* kSetApplicationId = "PRAGMA application_id = 1215459429";
/// A file of at most this size is checked in a fraction of a second.
constexpr std::uintmax_t kCheckedWhenOpened = 64 * 1024 * 1024;

Error lock_failure(const std::filesystem::path& path, const std::string& what, int error) {
  return {
      error == EACCES || error == EPERM || error == EROFS ? ErrorCode::kNoPermission
                                                          : ErrorCode::kIo,
      {{.file = path.string(), .message = what + ": " + std::generic_category().message(error)}}};
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown machine";
}

/// Returns the text that the lock's holder wrote, in printable ASCII only, because any process may
/// have written it.
std::string holder(int fd) {
  std::array<char, 400> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  std::string said;
  for (ssize_t i = 0; i < size; ++i) {
    const char c = text[static_cast<std::size_t>(i)];
    if (c >= ' ' && c <= '~') said += c;
  }

  return said.empty() ? "another process" : said;
}

/// Acquires the exclusive right to serve a SQLite file: a lock on a small file beside it
/// ("FILE-owner"). The kernel releases the lock when the process ends for any reason. The small
/// file stays. Fails with `kConflict` if another process holds the lock, and names that process,
/// its machine and `name`.
Result<UniqueFd> take_owner_lock(const std::filesystem::path& database, const std::string& name) {
  // One lock per file, independent of the path or link by which it is opened.
  std::error_code unresolved;
  std::filesystem::path path = std::filesystem::weakly_canonical(database, unresolved);
  if (unresolved) path = database;
  path += "-owner";
  UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) {
    const int error = errno;
    std::error_code ignored;
    if (error == ENOENT && !std::filesystem::exists(path.parent_path(), ignored)) {
      return Error::io(database.string(),
                       "its directory does not exist; create it for the user "
                       "that the server runs as");
    }
    return lock_failure(path, "cannot open the lock of the server's database", error);
  }

  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return lock_failure(path, "cannot lock", errno);
    return Error{ErrorCode::kConflict,
                 {{.file = database.string(),
                   .message = "is in use by " + holder(lock.get()) +
                              "; one server at a time can use a SQLite file: stop that one, give "
                              "this one another file, or use PostgreSQL for several servers"}}};
  }

  const std::string me = "process " + std::to_string(::getpid()) + " on " + host_name() + " (" +
                         name.substr(0, 200) + ")\n";
  // The text is only for display, so a full disk does not prevent the start.
  if (::ftruncate(lock.get(), 0) != 0 || ::pwrite(lock.get(), me.data(), me.size(), 0) < 0)
    errno = 0;
  return lock;
}

/// Notifications within one process, because no other process can open the store. Thread-safe.
class LocalNotifications {
 public:
  LocalNotifications() = default;
  LocalNotifications(const LocalNotifications&) = delete;
  LocalNotifications& operator=(const LocalNotifications&) = delete;
  ~LocalNotifications();

  /// See `Store::listen`.
  void listen(std::function<void(const StoreNotification&)> hear) {
    const MutexLock one_at_a_time(listening_);
    stop();
    if (!hear) return;
    {
      const MutexLock lock(mutex_);
      wanted_ = true;
      waiting_.assign({StoreNotification{StoreNotification::Kind::kLookAgain, "", false}});
    }
    thread_ = std::thread([this, hear = std::move(hear)] { deliver(hear); });
  }

  void announce(const std::string& text) {
    const MutexLock lock(mutex_);
    if (!wanted_) return;
    waiting_.push_back({StoreNotification::Kind::kAnnounced, text, true});
    arrived_.notify_one();
  }

 private:
  void stop() HARPE_REQUIRES(listening_);
  void deliver(const std::function<void(const StoreNotification&)>& hear) {
    MutexLock lock(mutex_);
    while (true) {
      arrived_.wait(mutex_,
                    [this]() HARPE_REQUIRES(mutex_) { return !wanted_ || !waiting_.empty(); });
      if (!wanted_) return;
      const StoreNotification notification = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      hear(notification);
      lock.lock();
    }
  }

  Mutex listening_;  ///< one `listen` runs at a time
  Mutex mutex_;      ///< guards the members below
  CondVar arrived_;
  std::deque<StoreNotification> waiting_ HARPE_GUARDED_BY(mutex_);
  bool wanted_ HARPE_GUARDED_BY(mutex_) = false;
  std::thread thread_ HARPE_GUARDED_BY(listening_);  ///< started only by `listen`
};

LocalNotifications::~LocalNotifications() {
  const MutexLock one_at_a_time(listening_);
  stop();
}

void LocalNotifications::stop() {
  {
    const MutexLock lock(mutex_);
    wanted_ = false;
    arrived_.notify_one();
  }

  if (thread_.joinable()) thread_.join();
}

/// Creates a file that only its owner can read, because jobs are not for other users.
Status create_private(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_EXCL, 0600);
  if (fd >= 0) ::close(fd);
  return ok_status();  // opening the file reports the error
}

class SqliteStore final : public SqlStore {
 public:
  SqliteStore(UniqueFd lock, const std::string& path, const StoreOptions& options)
      : timeout_(options.timeout),
        lock_(std::move(lock)),
        url_(options.url),
        path_(path),
        database_(path, options.timeout) {}

  Status open(std::span<const Migration> steps) {
    const MutexLock lock(mutex_);
    (void)create_private(path_);
    HARPE_TRY(database_.open());
    HARPE_TRY(check_file());
    // The schema may be from another program: it must not call functions with side effects.
    for (const char* setting : {"PRAGMA trusted_schema = OFF", "PRAGMA cell_size_check = ON",
                                "PRAGMA temp_store = MEMORY", "PRAGMA synchronous = FULL"}) {
      HARPE_TRY(database_.run(setting));
    }
    const std::string mode = HARPE_TRY(database_.value("PRAGMA journal_mode = WAL"));
    if (mode != "wal") {
      return Error::io(path_,
                       "cannot use a write-ahead log: its file system does not "
                       "support shared memory; move it to a local disk");
    }
    HARPE_TRY(migrate(steps));
    return begin_epoch();
  }

  Result<std::vector<std::string>> write(const StoreChanges& changes) override {
    HARPE_TRY(check_changes(changes));
    const MutexLock lock(mutex_);
    for (const auto& [job, epoch] : changes.epochs) check_claim(epoch);
    SqliteTransaction transaction(database_);
    HARPE_TRY(transaction.begin());
    std::set<std::string> refused;
    HARPE_TRY(write_changes(database_, changes, refused));
    HARPE_TRY(transaction.commit());
    for (const std::string& notification : changes.notifications)
      notifications_.announce(notification);
    return std::vector<std::string>(refused.begin(), refused.end());
  }

  Status remove(const std::string& id, std::optional<std::int64_t> epoch) override {
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

  Result<std::int64_t> prune(const Retention& keep) override {
    HARPE_TRY(check_retention(keep));
    const MutexLock lock(mutex_);
    SqliteTransaction transaction(database_);
    HARPE_TRY(transaction.begin());
    const std::int64_t total = HARPE_TRY(prune_events(database_, keep, nullptr));
    HARPE_TRY(transaction.commit());
    return total;
  }

  Result<std::optional<JobClaim>> claim(const std::string& job) override {
    HARPE_TRY(check_job_id(job));
    const MutexLock lock(mutex_);
    owned_.insert(job);
    return std::optional(JobClaim{.epoch = epoch_, .tenure = lease().tenure});
  }

  Status release(const std::string& job) override {
    const MutexLock lock(mutex_);
    owned_.erase(job);
    return ok_status();
  }

  /// The lock on the file takes the place of a lease.
  LeaseState lease() const override { return {.held = true, .tenure = 1}; }
  Result<std::optional<JobOwner>> owner(const std::string& job) override {
    HARPE_TRY(check_job_id(job));
    const MutexLock lock(mutex_);
    if (!owned_.contains(job)) return std::optional<JobOwner>();
    return std::optional(JobOwner{.url = url_, .own = true});
  }

  Result<std::map<std::string, std::string>> owners() override {
    const MutexLock lock(mutex_);
    std::map<std::string, std::string> urls;
    for (const std::string& job : owned_) urls[job] = url_;
    return urls;
  }

  Result<std::vector<std::string>> ownerless() override {
    const MutexLock lock(mutex_);
    std::vector<std::string> ids;
    HARPE_TRY(database_.execute("SELECT id FROM harpe_job ORDER BY id", {},
                                [&](const SqlRow& row) { ids.push_back(row.text(0)); }));
    std::erase_if(
        ids, [this](const std::string& id) HARPE_REQUIRES(mutex_) { return owned_.contains(id); });
    return ids;
  }

  Status notify(const std::string& text) override {
    HARPE_TRY(check_notification(text));
    notifications_.announce(text);
    return ok_status();
  }

  Status listen(std::function<void(const StoreNotification&)> hear) override {
    notifications_.listen(std::move(hear));
    return ok_status();
  }

  Status check() override {
    const MutexLock lock(mutex_);
    HARPE_TRY(database_.value("SELECT count(*) FROM sqlite_schema"));
    return ok_status();
  }

  Status verify() override {
    // Uses a separate connection, because the check may take minutes.
    SqliteDatabase database(path_, timeout_);
    HARPE_TRY(database.open());
    return check_pages(database);
  }

  std::string description() const override { return "SQLite " + path_; }

 private:
  Result<SqlDatabase*> connected() HARPE_REQUIRES(mutex_) override { return &database_; }
  /// Rejects a damaged file or another program's file before anything is changed in it.
  Status check_file() HARPE_REQUIRES(mutex_) {
    const std::string application = HARPE_TRY(database_.value("PRAGMA application_id"));
    const std::string tables = HARPE_TRY(database_.value("SELECT count(*) FROM sqlite_schema"));
    if (application != kApplicationId && (tables != "0" || application != "0")) {
      return Error::io(path_, "is the database of another program; name another file");
    }
    std::error_code unknown;
    const auto size = std::filesystem::file_size(path_, unknown);
    if (!unknown && size > kCheckedWhenOpened) return ok_status();  // `verify` checks the pages
    return check_pages(database_);
  }

  Status check_pages(SqliteDatabase& database) const;
  Status migrate(std::span<const Migration> steps) HARPE_REQUIRES(mutex_) {
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

  Status begin_epoch() HARPE_REQUIRES(mutex_);
  /// Checks that the claim is from this opening of the file or an earlier one.
  void check_claim(std::int64_t epoch) const HARPE_REQUIRES(mutex_) {
    HARPE_CHECK(epoch <= epoch_, "a job is changed by a claim that its store gave");
  }

  const Seconds timeout_;
  UniqueFd lock_;
  const std::string url_;
  const std::string path_;
  SqliteDatabase database_ HARPE_GUARDED_BY(mutex_);
  std::int64_t epoch_ HARPE_GUARDED_BY(mutex_) = 0;  ///< of all claims
  std::set<std::string> owned_ HARPE_GUARDED_BY(mutex_);
  LocalNotifications notifications_;
};

Status SqliteStore::begin_epoch() {
  HARPE_TRY(database_.run("UPDATE server SET epoch = epoch + 1"));
  const std::string epoch = HARPE_TRY(database_.value("SELECT epoch FROM server"));
  epoch_ = parse_integer(epoch).value_or(0);
  if (epoch_ > 0) return ok_status();
  return Error::io(path_, "is damaged: it does not state how often it was opened");
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

}  // namespace

Result<std::unique_ptr<Store>> open_sqlite_store(const std::string& path,
                                                 const StoreOptions& options,
                                                 std::span<const Migration> steps) {
  UniqueFd lock = HARPE_TRY(take_owner_lock(path, options.name));
  auto store = std::make_unique<SqliteStore>(std::move(lock), path, options);
  HARPE_TRY(store->open(steps));
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace harpe::training
