#pragma once
/// \file
/// What a server hosts: something with an id that is in memory while it goes on, whose state is
/// kept by the store, and that clients listen to. A training job is one (`HostedJob`); hosting and
/// storing know no more of it than stands here.
///
/// One that was read from the store is asleep: it is as it was stored, and can be looked at, until
/// `go_on`.
///
/// On the loop's thread.

#include <cstddef>
#include <cstdint>
#include <deque>
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
#include "harpe/training/store/store.h"

namespace harpe::training {

/// The revision of a job's state that the store has. States are numbered, and the store refuses one
/// that is older than its own.
///
/// Every build checks these invariants, because a lost or exchanged state looks like a valid one:
/// the stored revision never decreases; a revision has one content, even if a write of it failed
/// before; only a revision that was written is marked as stored.
///
/// Not thread-safe.
class Revisions {
 public:
  /// Of a job that the store does not have.
  Revisions() = default;
  /// Of one that was read from the store.
  static Revisions of_stored(std::int64_t revision);

  std::int64_t newest() const { return newest_; }  ///< of what the job is now
  std::int64_t stored() const { return stored_; }
  bool in_store() const { return in_store_; }
  /// Whether the store has not been given what the job is now.
  bool differs() const { return differs_; }
  /// Whether the store has what the job is now.
  bool is_stored() const { return in_store_ && stored_ >= newest_; }

  void change();
  /// What the job is now is written, by the revision that is returned.
  std::int64_t write();
  /// What was written last could not be, or it is not known whether it was.
  void failed(std::int64_t revision);
  /// The store has what was written by this revision.
  void written(std::int64_t revision);

 private:
  std::int64_t newest_ = 0, stored_ = 0;
  std::optional<std::int64_t> in_flight_;  ///< written, without a response
  bool differs_ = false, in_store_ = false;
};

class JobListeners;

/// Is called when something of a job may have changed. Its destructor removes it from its list.
class JobListener {
 public:
  JobListener() = default;
  JobListener(const JobListener&) = delete;
  JobListener& operator=(const JobListener&) = delete;
  virtual ~JobListener();
  virtual void changed() = 0;
  /// Called once a second.
  virtual void ticked() = 0;

  enum class Interest : unsigned char {
    kNone,       ///< the job may leave memory
    kLooks,      ///< the job stays in memory
    kTakesPart,  ///< the same, and the client is part of it: a rank, for example
  };
  virtual Interest interest() const = 0;

 private:
  friend class JobListeners;
  JobListeners* list_ = nullptr;
  std::size_t position_ = 0;
};

/// The listeners of one job; each is in at most one list. All is O(1) but `for_each` and
/// `interest`.
class JobListeners {
 public:
  JobListeners() = default;
  JobListeners(const JobListeners&) = delete;
  JobListeners& operator=(const JobListeners&) = delete;
  ~JobListeners();

  /// Removes the listener from its list before.
  void add(JobListener& listener);
  void remove(JobListener& listener);
  std::size_t size() const { return all_.size(); }
  /// Calls `visit` with each listener; `visit` may remove listeners.
  void for_each(const std::function<void(JobListener&)>& visit) const;
  /// Returns the strongest interest of all listeners.
  JobListener::Interest interest() const;

 private:
  std::vector<JobListener*> all_;
};

/// The state of saving one job: how far the store has it, what is to be written, and what waits for
/// that. Changed by the saver alone, but for `revisions` of a job that was read from the store.
struct SaveState {
  Revisions revisions;
  bool queued = false;  ///< it waits to be saved
  // Taken from the job, but not written yet.
  std::optional<std::string> plans;
  std::map<std::string, std::string> parts;
  std::vector<StoredEvent> events;
  struct Waiting {
    std::int64_t revision;
    std::function<void(const Status&)> done;
  };
  std::vector<Waiting> waiting;
  int refusals = 0;                ///< of the store, in a row, while it took others
  std::uint64_t last_refusal = 0;  ///< saves that had gone well before the last one
  Instant next_try;                ///< after a refusal
};

/// Something that happened to a job, as its log shows it.
struct LoggedEvent {
  std::int64_t sequence = 0;  ///< rises within the job
  double at = 0;              ///< seconds since 1970
  std::string kind;           ///< "info", "warning" or "phase"
  std::string text;
};

/// What has to be done outside after something has happened.
struct HostedEffects {
  struct Event {
    std::string kind, text;  ///< as in `LoggedEvent`; a warning is for the server's log, too
    Seconds at{};
  };
  std::vector<Event> events = {};
  bool save = false;     ///< the state holds something that must not be lost
  bool changed = false;  ///< listeners should look, also where there is no event
};

/// The state as it is now, and what changes seldom as far as it has since it was last taken.
struct HostedTexts {
  std::string state;
  std::map<std::string, std::string> parts = {};  ///< by name
  std::optional<std::string> plans = {};          ///< of what has some
};

/// Ids of recurring jobs among all that is hosted: those of training jobs, as users know them, have
/// no colon. Such a job is kept until it is removed by name: its next recurrence may be months off.
inline constexpr std::string_view kRecurringIds = "recurring:";

class Hosted {
 public:
  explicit Hosted(std::string given_id) : id(std::move(given_id)) {}
  virtual ~Hosted() = default;
  Hosted(const Hosted&) = delete;
  Hosted& operator=(const Hosted&) = delete;

  // What each kind says and does itself.
  virtual HostedTexts take_texts() = 0;
  /// Members of a JSON object, without braces; what lists show, also when it is not in memory.
  virtual std::string summary_text() const = 0;
  virtual Seconds heard() const = 0;                 ///< when a client took part in it last
  virtual std::optional<Seconds> ended() const = 0;  ///< when it ended in order; none: it has not
  virtual std::size_t memory() const = 0;            ///< bytes, about; O(1) unless it has changed
  virtual bool asleep() const = 0;
  virtual void go_on(Seconds now) = 0;
  /// A client that takes part listens.
  virtual void hear(Seconds now) = 0;
  /// About once a second while it is active.
  virtual void tick(Seconds now) = 0;
  /// What has gathered since the last call. Called whenever something has happened to it.
  virtual HostedEffects take_effects(Seconds now) = 0;
  /// It is not active: what can wait is not done for it any more. About once a second.
  virtual void rest() {}
  /// It is over, or leaves memory: nothing more is to be done for it.
  virtual void leave() {}

  /// As it is now, or as it was stored where it sleeps.
  JobSummary summary() const;

  const std::string id;
  JobClaim claim{.epoch = 1};  ///< by which this server has it
  bool deleted = false;
  bool moved = false;     ///< another server has it now, or may have it
  bool unloaded = false;  ///< it is in the store alone; another object may stand for it
  bool is_over() const { return deleted || moved || unloaded; }
  JobListeners listeners;
  std::deque<LoggedEvent> events;  ///< the newest
  std::int64_t newest_event = 0;

  // For hosting.
  Instant used;  ///< when it was last asked for
  /// Something has happened since it was last saved, of which not everything has to be stored at
  /// once: reports of iterations, say.
  bool touched = false;
  std::string stored_summary;      ///< as it was stored; while it is asleep
  std::size_t memory_counted = 0;  ///< of `memory`, by `HostedTable`
  /// The client (`HttpRequest::client`) whose share of the memory for jobs this job takes: the
  /// client that registered the job, or, after it was read from the store, the first client that
  /// registers a rank or another specification. Empty if there is none yet: reading a job takes no
  /// share.
  std::string client;

  SaveState saving;
};
using HostedPtr = std::shared_ptr<Hosted>;

}  // namespace harpe::training
