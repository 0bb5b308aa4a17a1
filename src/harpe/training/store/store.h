#pragma once
/// \file
/// Training jobs and what happened to them, in a database: SQLite in one file for one server, or
/// PostgreSQL for several servers at once. The store holds texts; it does not know what is in them.
///
/// What a call acknowledged survives: kill -9 of the program, and a power failure as far as the
/// disk keeps what it said it has (SQLite: write-ahead log with `synchronous = FULL`; PostgreSQL:
/// as its `synchronous_commit` and `fsync` say). What a call refused changed nothing.
///
/// Errors, the same for both databases:
/// - `kInvalidInput`: a text that is not UTF-8 or has a zero byte, a time that is not finite, a
/// URL;
/// - `kIo`: no space, a damaged file, a database made by a newer Harpe;
/// - `kNoPermission`: a file or a database that this user may not use;
/// - `kConflict`: a SQLite file that another server has open; a job that another server owns;
/// - `kUnavailable`: the database does not answer now. The next call connects again by itself.
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

/// One job. Ids have 1 to 255 bytes.
struct StoredJob {
  std::string id;
  std::string state;          ///< what changes all the time; see `JobSave`
  std::int64_t revision = 0;  ///< grows with every change; a save with an older one is refused
  double updated = 0;         ///< seconds since 1970
  friend bool operator==(const StoredJob&, const StoredJob&) = default;
};

/// What is known of a job without reading it: short, so that all of them can be read at once.
struct JobSummary {
  std::string job;
  std::string text;             ///< empty: none was written yet
  double heard = 0;             ///< when its ranks were last heard of, by the store's clock
  std::optional<double> ended;  ///< when they ended in order, by the same clock; none: they did not
  friend bool operator==(const JobSummary&, const JobSummary&) = default;
};

/// Something that happened to a job, or to the server itself (`job` empty).
struct StoredEvent {
  std::int64_t sequence = 0;  ///< given by the store: grows, never used again
  double at = 0;              ///< seconds since 1970, for people
  std::string job, kind, text;
  std::optional<double> stored_at = {};  ///< by the store's clock, for `Retention`; none: `at`
  friend bool operator==(const StoredEvent&, const StoredEvent&) = default;
};

/// A job to save. What is not given (plans, parts, the summary) is left as it is.
struct JobSave {
  StoredJob job;
  std::optional<std::string> plans;
  std::map<std::string, std::string> parts = {};  ///< by name: what changes seldom
  std::optional<JobSummary> summary = {};         ///< its `job` is not looked at
  /// Refused where the store does not have the job: it was removed, and stays so.
  bool is_there = false;
};

/// The clock of the store: seconds that rise evenly and never fall, across restarts, whatever the
/// clocks of machines do; and what the clocks of the machine said that wrote it.
struct ClockMark {
  double seconds = 0;
  std::string boot;  ///< the machine's start that `boot_time` counts from
  double boot_time = 0;
  double wall = 0;  ///< since 1970
  friend bool operator==(const ClockMark&, const ClockMark&) = default;
};

/// What is written in one transaction: all of it or nothing. Give many at once: a transaction costs
/// one flush to the disk, however much is in it.
struct StoreChanges {
  std::vector<JobSave> jobs;
  std::vector<StoredEvent> events;         ///< `sequence` is ignored
  std::vector<std::string> notifications;  ///< announced once it is written, up to 7000 bytes each
  std::vector<JobSummary> summaries = {};  ///< of jobs that are there; others are refused
  std::optional<ClockMark> clock = {};     ///< kept unless the store has a later one
  /// By which claim (`JobClaim::epoch`) the jobs are changed, and events and summaries written of
  /// them; where one is left out, by the last claim of this store.
  std::map<std::string, std::int64_t> epochs = {};
};

/// The right to command a job, and to change it here.
struct JobClaim {
  std::int64_t epoch = 0;    ///< rises whenever the job gets an owner
  std::uint64_t tenure = 0;  ///< of the lease under which it holds: see `LeaseState`
  friend bool operator==(const JobClaim&, const JobClaim&) = default;
};

/// Whether claims of this store hold.
struct LeaseState {
  bool held = false;         ///< while it is not, another server may have claimed what this one had
  std::uint64_t tenure = 0;  ///< rises when all that was claimed before is lost for good
};

/// A server that owns a job.
struct JobOwner {
  std::string url;
  bool own = false;  ///< it is this store
  friend bool operator==(const JobOwner&, const JobOwner&) = default;
};

/// What a listener hears.
struct StoreNotification {
  enum class Kind : unsigned char {
    kAnnounced,  ///< `text` was announced by a server, in the order written
    kLookAgain,  ///< from now on nothing is missed; before, something may have been: read what
                 ///< matters
  };
  Kind kind = Kind::kAnnounced;
  std::string text;
  bool own = false;  ///< this store announced it
};

/// Which events to keep.
struct Retention {
  double since = 0;                    ///< older ones go, by the store's clock
  std::int64_t most_per_job = 10'000;  ///< of each job (and of the server) only the newest
  /// Whose events are counted for that; none: those of every job, which reads them all.
  std::optional<std::vector<std::string>> jobs = {};
  std::int64_t most_at_once = 1'000'000;  ///< that one call deletes for their age
};

struct StoreOptions {
  Seconds timeout = 10_s;           ///< a database that takes longer to answer is unavailable
  Seconds reconnect_pause = 0.2_s;  ///< between attempts to reach a database that is away
  std::string name = "harpe";  ///< who has it open, for others who find it taken, such as a URL
  /// Where other servers of a PostgreSQL reach this one; empty: it claims no jobs.
  std::string url = {};
  LeaseTimes lease = {};
  Clock* clock = nullptr;  ///< by which leases are measured; null: the machine's
};

/// Thread-safe: calls wait for each other, so that a slow disk makes them slow. All block.
class Store {
 public:
  /// Opens, creates or brings up to date what `url` names: "sqlite:PATH" or
  /// "postgresql://USER@HOST:PORT/DATABASE?PARAMETERS" (see store_url.h).
  static Result<std::unique_ptr<Store>> open(const std::string& url,
                                             const StoreOptions& options = {});

  virtual ~Store() = default;

  /// Writes all changes in one transaction. Returns the ids of the jobs that were left as they
  /// were, with their events: the store has a newer revision or another state of the same revision,
  /// or another server owns them. The same again (after a response got lost) is accepted and
  /// changes nothing: the same state at the same revision, an event equal to one that is there.
  virtual Result<std::vector<std::string>> write(const StoreChanges& changes) = 0;

  /// All jobs, by id.
  virtual Result<std::vector<StoredJob>> jobs() = 0;
  virtual Result<std::optional<StoredJob>> job(const std::string& id) = 0;

  /// What was last saved as plans of the job.
  virtual Result<std::optional<std::string>> plans(const std::string& id) = 0;

  /// What was last saved as each part of the job, by name.
  virtual Result<std::map<std::string, std::string>> parts(const std::string& id) = 0;

  /// Of all jobs, by id. Reads nothing else of them.
  virtual Result<std::vector<JobSummary>> summaries() = 0;
  virtual Result<std::optional<JobSummary>> summary(const std::string& id) = 0;

  /// The latest that was written; none: the store is new.
  virtual Result<std::optional<ClockMark>> clock() = 0;

  /// The job, its plans, its events and its owner. Harmless where there is none; `kConflict` where
  /// another server owns it. \param epoch  of the claim by which; none: the last of this store
  virtual Status remove(const std::string& id,
                        std::optional<std::int64_t> epoch = std::nullopt) = 0;

  /// The first `limit` events after `sequence`, of one job ("" for the server's own).
  virtual Result<std::vector<StoredEvent>> events(const std::string& job, std::int64_t after,
                                                  int limit) = 0;

  /// Deletes events that `keep` leaves out, but of jobs that another server owns; how many.
  virtual Result<std::int64_t> prune(const Retention& keep) = 0;

  /// Makes this store the owner of a job; nothing where another server owns it. Each owner has a
  /// higher epoch than those before, also where the job was removed between; again by the owner, it
  /// is the same. Ownership ends with
  /// `release`, with `remove`, with this store, and when its lease is over and another server
  /// claims the job (server_lease.h), which may be at once where its process has provably ended on
  /// the same machine. The store refuses changes to a job by all claims but the last (see `write`).
  /// On SQLite the store that has the file open owns all jobs; their epoch rises each time it is
  /// opened.
  virtual Result<std::optional<JobClaim>> claim(const std::string& job) = 0;
  virtual Status release(const std::string& job) = 0;

  /// The lease that all claims of this store stand on. Waits for nothing: to be asked before every
  /// answer that commands.
  virtual LeaseState lease() const = 0;

  /// The server that owns the job and whose lease is not known to be over.
  virtual Result<std::optional<JobOwner>> owner(const std::string& job) = 0;

  /// The URLs of the servers that own jobs, by job.
  virtual Result<std::map<std::string, std::string>> owners() = 0;

  /// The jobs, by id, that no server owns whose lease is not known to be over.
  virtual Result<std::vector<std::string>> ownerless() = 0;

  /// Announces `text` to all listeners of all servers, up to 7000 bytes.
  virtual Status notify(const std::string& text) = 0;

  /// Calls `hear` on a thread of its own, never two calls at once: first and after every lost
  /// connection with `kLookAgain`, then with what is announced. Replaces the listener before.
  /// `hear` may call this store but `listen`; without one, listening ends. Returns when no call of
  /// the listener before runs any more.
  virtual Status listen(std::function<void(const StoreNotification&)> hear) = 0;

  /// Whether the database answers now.
  virtual Status check() = 0;

  /// Reads everything that opening left out for taking long, to find damage. Other calls do not
  /// wait for it. `kIo` names the damage.
  virtual Status verify() = 0;

  /// What is open, without a password: "SQLite /var/lib/harpe/harpe.db".
  virtual std::string description() const = 0;
};

}  // namespace harpe::training
