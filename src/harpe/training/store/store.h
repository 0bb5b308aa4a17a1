#pragma once
/// \file
/// Database of training jobs and their events: SQLite in one file for one server, or PostgreSQL for
/// several servers at once. The store holds texts and does not interpret them.
///
/// Changes that a call acknowledged survive kill -9 of the program. They survive a power failure if
/// the disk keeps the data that it confirmed (SQLite: write-ahead log with `synchronous = FULL`;
/// PostgreSQL: according to its `synchronous_commit` and `fsync`). A call that fails changes
/// nothing.
///
/// Errors, identical for both databases:
/// - `kInvalidInput`: a text that is not UTF-8 or has a zero byte, a time that is not finite, a bad
///   URL;
/// - `kIo`: no space, a damaged file, a database made by a newer Harpe;
/// - `kNoPermission`: a file or a database that this user may not use;
/// - `kConflict`: a SQLite file that another server has open; a job that another server owns;
/// - `kUnavailable`: the database does not respond now. The next call reconnects automatically.
/// Messages never contain a password.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/training/store/server_lease.h"

namespace harpe::training {

/// A stored job. Ids have 1 to 255 bytes.
struct StoredJob {
  std::string id;
  std::string state;          ///< the data that changes often; see `JobSave`
  std::int64_t revision = 0;  ///< grows with every change; a save with an older revision is refused
  double updated = 0;         ///< seconds since 1970
  friend bool operator==(const StoredJob&, const StoredJob&) = default;
};

/// A short description of a job. The summaries of all jobs can be read at once.
struct JobSummary {
  std::string job;
  std::string text;  ///< empty if none has been written yet
  double heard = 0;  ///< time of the last message from its ranks, by the store's clock
  /// When its ranks ended in order, by the same clock; nullopt if not.
  std::optional<double> ended;
  friend bool operator==(const JobSummary&, const JobSummary&) = default;
};

/// An event of a job, or of the server itself if `job` is empty.
struct StoredEvent {
  std::int64_t sequence = 0;  ///< assigned by the store: increasing, never reused
  double at = 0;              ///< seconds since 1970, for display
  std::string job, kind, text;
  /// By the store's clock, for `Retention`; nullopt if equal to `at`.
  std::optional<double> stored_at = {};
  friend bool operator==(const StoredEvent&, const StoredEvent&) = default;
};

/// A job to save. Fields without a value (plans, parts, the summary) keep their stored value.
struct JobSave {
  StoredJob job;
  std::optional<std::string> plans;
  std::map<std::string, std::string> parts = {};  ///< by name: the data that changes rarely
  std::optional<JobSummary> summary = {};         ///< its `job` is ignored
  /// True to update only: the save is refused if the store does not have the job, so that a removed
  /// job stays removed.
  bool is_there = false;
};

/// A reading of the store's clock: seconds that rise evenly and never fall, across restarts and
/// changes of any machine's clock; with the clocks of the machine that wrote it at the same moment.
struct ClockMark {
  double seconds = 0;
  std::string boot;  ///< identifies the boot of the machine that `boot_time` is counted from
  double boot_time = 0;
  double wall = 0;  ///< seconds since 1970
  friend bool operator==(const ClockMark&, const ClockMark&) = default;
};

/// Changes of one transaction: all of them are written or none. Pass many at once: a transaction
/// costs one flush to the disk, regardless of its size.
struct StoreChanges {
  std::vector<JobSave> jobs;
  std::vector<StoredEvent> events;         ///< `sequence` is ignored
  std::vector<std::string> notifications;  ///< sent after the commit, up to 7000 bytes each
  std::vector<JobSummary> summaries = {};  ///< of existing jobs; others are refused
  std::optional<ClockMark> clock = {};     ///< ignored if the store has a later one
  /// By job: the epoch (`JobClaim::epoch`) of the claim under which the job, its events and its
  /// summary are written. Jobs without an entry are written under the last claim of this store.
  std::map<std::string, std::int64_t> epochs = {};
};

/// The right to command a job and to change it in the store.
struct JobClaim {
  std::int64_t epoch = 0;    ///< rises whenever the job gets an owner
  std::uint64_t tenure = 0;  ///< tenure of the lease that the claim depends on: see `LeaseState`
  friend bool operator==(const JobClaim&, const JobClaim&) = default;
};

/// Validity of the claims of this store.
struct LeaseState {
  bool held = false;         ///< if false, another server may have claimed the jobs of this one
  std::uint64_t tenure = 0;  ///< rises when all earlier claims are lost for good
};

/// A server that owns a job.
struct JobOwner {
  std::string url;
  bool own = false;  ///< true if the owner is this store
  friend bool operator==(const JobOwner&, const JobOwner&) = default;
};

/// A notification to a listener.
struct StoreNotification {
  enum class Kind : unsigned char {
    kAnnounced,  ///< a server sent `text`; in the order written
    kLookAgain,  ///< later notifications are not lost, earlier ones may be: read again
  };
  Kind kind = Kind::kAnnounced;
  std::string text;
  bool own = false;  ///< true if this store sent it
};

/// The events to keep.
struct Retention {
  double since = 0;                    ///< older events are deleted; by the store's clock
  std::int64_t most_per_job = 10'000;  ///< newest events kept for each job and for the server
  /// Jobs whose events are counted for `most_per_job`; nullopt for all jobs, which reads all
  /// events.
  std::optional<std::vector<std::string>> jobs = {};
  /// Limit on the events that one call deletes for their age.
  std::int64_t most_at_once = 1'000'000;
};

struct StoreOptions {
  Seconds timeout = 10_s;  ///< limit on a response; a database that takes longer is unavailable
  Seconds reconnect_pause = 0.2_s;  ///< between attempts to connect to an unavailable database
  std::string name = "harpe";  ///< name of the user of the database, such as a URL, shown to others
                               ///< that find it locked
  /// URL at which other servers of the same PostgreSQL reach this one; empty if it claims no jobs.
  std::string url = {};
  LeaseTimes lease = {};
  Clock* clock = nullptr;  ///< measures leases; null for the machine's
};

/// Thread-safe: calls are serialized, so a slow disk delays all of them. All calls block.
class Store {
 public:
  /// Opens the database at `url`; creates or migrates it if necessary. `url` is "sqlite:PATH" or
  /// "postgresql://USER@HOST:PORT/DATABASE?PARAMETERS" (see store_url.h).
  static Result<std::unique_ptr<Store>> open(const std::string& url,
                                             const StoreOptions& options = {});

  virtual ~Store() = default;

  /// Writes all changes in one transaction. Returns the ids of the jobs that were refused, together
  /// with their events: the store has a newer revision or another state at the same revision, or
  /// another server owns the job. Repeating a write (after its response was lost) succeeds and
  /// changes nothing: the same state at the same revision, and an event equal to a stored one, are
  /// accepted.
  virtual Result<std::vector<std::string>> write(const StoreChanges& changes) = 0;

  /// Returns all jobs, by id.
  virtual Result<std::vector<StoredJob>> jobs() = 0;
  virtual Result<std::optional<StoredJob>> job(const std::string& id) = 0;

  /// Returns the plans of the job that were saved last.
  virtual Result<std::optional<std::string>> plans(const std::string& id) = 0;

  /// Returns the parts of the job that were saved last, by name.
  virtual Result<std::map<std::string, std::string>> parts(const std::string& id) = 0;

  /// Returns the summaries of all jobs, by id. Reads no other data.
  virtual Result<std::vector<JobSummary>> summaries() = 0;
  virtual Result<std::optional<JobSummary>> summary(const std::string& id) = 0;

  /// Returns the latest clock mark, or nullopt if the store is new.
  virtual Result<std::optional<ClockMark>> clock() = 0;

  /// Removes the job, its plans, its events and its owner. Succeeds if there is no such job. Fails
  /// with `kConflict` if another server owns it.
  /// \param epoch  of the claim under which to remove it; nullopt for the last claim of this store
  virtual Status remove(const std::string& id,
                        std::optional<std::int64_t> epoch = std::nullopt) = 0;

  /// Returns the first `limit` events after sequence number `after` of one job ("" for the server).
  virtual Result<std::vector<StoredEvent>> events(const std::string& job, std::int64_t after,
                                                  int limit) = 0;

  /// Deletes the events that `keep` excludes, except those of jobs that another server owns.
  /// Returns the number of events deleted.
  virtual Result<std::int64_t> prune(const Retention& keep) = 0;

  /// Makes this store the owner of a job. Returns nullopt if another server owns it. Each new owner
  /// gets a higher epoch than all owners before, even if the job was removed in between; a repeated
  /// claim by the owner returns the same epoch. Ownership ends with `release`, with `remove`, with
  /// this store, and when its lease has expired and another server claims the job (server_lease.h);
  /// that may be immediately if the owner's process has provably ended on the same machine. The
  /// store refuses changes to a job under any claim but the last (see `write`). On SQLite, the
  /// store that has the file open owns all jobs; their epoch rises each time the file is opened.
  virtual Result<std::optional<JobClaim>> claim(const std::string& job) = 0;
  virtual Status release(const std::string& job) = 0;

  /// Returns the state of the lease that all claims of this store depend on. Does not block. Check
  /// it before each response that commands a job.
  virtual LeaseState lease() const = 0;

  /// Returns the server that owns the job, or nullopt if there is none or its lease is known to
  /// have expired.
  virtual Result<std::optional<JobOwner>> owner(const std::string& job) = 0;

  /// Returns the URLs of the servers that own jobs, by job.
  virtual Result<std::map<std::string, std::string>> owners() = 0;

  /// Returns the ids of the jobs that have no owner or whose owner's lease is known to have
  /// expired.
  virtual Result<std::vector<std::string>> ownerless() = 0;

  /// Sends `text`, up to 7000 bytes, to all listeners of all servers.
  virtual Status notify(const std::string& text) = 0;

  /// Sets the listener, or removes it if `hear` is empty. Calls `hear` on a separate thread, never
  /// concurrently: with `kLookAgain` first and after every lost connection, then with each
  /// notification. `hear` may call any function of this store except `listen`. Returns after all
  /// calls of the previous listener have returned.
  virtual Status listen(std::function<void(const StoreNotification&)> hear) = 0;

  /// Returns OK if the database responds now.
  virtual Status check() = 0;

  /// Reads the data that `open` skipped because reading it takes long, to find damage. Other calls
  /// do not wait for it. `kIo` describes the damage.
  virtual Status verify() = 0;

  /// Returns the name of the database without a password: "SQLite /var/lib/harpe/harpe.db".
  virtual std::string description() const = 0;
};

}  // namespace harpe::training
