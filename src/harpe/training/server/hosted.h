#pragma once
/// \file
/// A hosted object of the server: it has an id, is in memory while it is active, is saved in the
/// store, and has clients that listen to it. A training job is one kind (`HostedJob`); hosting and
/// storing use only this interface.
///
/// An object that was read from the store is asleep: it can be inspected in its stored state, but
/// does nothing until `go_on`.
///
/// Used on the loop's thread.

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

/// The revisions of a job's state in memory and in the store. States are numbered, and the store
/// refuses a state that is older than its own.
///
/// Every build checks these invariants, because a lost or exchanged state looks like a valid one:
/// the stored revision never decreases; a revision has one content, even if writing it failed
/// before; only a revision that was written is marked as stored.
///
/// Not thread-safe.
class Revisions {
 public:
  /// Creates the revisions of a job that the store does not have.
  Revisions() = default;
  /// Returns the revisions of a job that was read from the store.
  static Revisions of_stored(std::int64_t revision);

  std::int64_t newest() const { return newest_; }  ///< of the job's current state
  std::int64_t stored() const { return stored_; }
  bool in_store() const { return in_store_; }
  /// Returns true if the current state has not been passed to a write, or that write has failed.
  bool differs() const { return differs_; }
  /// Returns true if the store has the current state.
  bool is_stored() const { return in_store_ && stored_ >= newest_; }

  void change();
  /// Starts a write of the current state. Returns its revision.
  std::int64_t write();
  /// Records that the last write failed, or that its result is unknown.
  void failed(std::int64_t revision);
  /// Records that the store has this revision.
  void written(std::int64_t revision);

 private:
  std::int64_t newest_ = 0, stored_ = 0;
  std::optional<std::int64_t> in_flight_;  ///< being written, without a response yet
  bool differs_ = false, in_store_ = false;
};

class JobListeners;

/// A listener that is called after a possible change of a job. Its destructor removes it from its
/// list.
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
    kTakesPart,  ///< the job stays in memory, and the client is part of it: a rank, for example
  };
  virtual Interest interest() const = 0;

 private:
  friend class JobListeners;
  JobListeners* list_ = nullptr;
  std::size_t position_ = 0;
};

/// The listeners of one job; each listener is in at most one list. All operations are O(1) except
/// `for_each` and `interest`.
class JobListeners {
 public:
  JobListeners() = default;
  JobListeners(const JobListeners&) = delete;
  JobListeners& operator=(const JobListeners&) = delete;
  ~JobListeners();

  /// Adds the listener, after removing it from its previous list.
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

/// The state of saving one job: the revisions, the data to write, and the callbacks that wait for
/// the write. Only the saver changes it, except `revisions` of a job that was read from the store.
struct SaveState {
  Revisions revisions;
  bool queued = false;  ///< the job is in the queue of jobs to save
  // Taken from the job, not written yet.
  std::optional<std::string> plans;
  std::map<std::string, std::string> parts;
  std::vector<StoredEvent> events;
  struct Waiting {
    std::int64_t revision;
    std::function<void(const Status&)> done;
  };
  std::vector<Waiting> waiting;
  int refusals = 0;                ///< consecutive refusals by the store, which accepted other jobs
  std::uint64_t last_refusal = 0;  ///< number of successful saves at the time of the last refusal
  Instant next_try;                ///< earliest time to try again after a refusal
};

/// An event of a job, as shown in its log.
struct LoggedEvent {
  std::int64_t sequence = 0;  ///< rises within the job
  double at = 0;              ///< seconds since 1970
  std::string kind;           ///< "info", "warning" or "phase"
  std::string text;
};

/// The actions that the server has to perform after an event.
struct HostedEffects {
  struct Event {
    std::string kind, text;  ///< as in `LoggedEvent`; a warning is added to the server's log, too
    Seconds at{};
  };
  std::vector<Event> events = {};
  bool save = false;     ///< the state has a change that must not be lost
  bool changed = false;  ///< listeners are to be called even without an event
};

/// The texts to store: the current state, and the parts and plans that changed since they were last
/// taken.
struct HostedTexts {
  std::string state;
  std::map<std::string, std::string> parts = {};  ///< by name
  std::optional<std::string> plans = {};          ///< nullopt if unchanged, or if there are none
};

/// Prefix of the ids of recurring jobs among all hosted objects; ids of training jobs have no
/// colon. A recurring job is kept until it is removed by name, because its next recurrence may be
/// months off.
inline constexpr std::string_view kRecurringIds = "recurring:";

class Hosted {
 public:
  explicit Hosted(std::string given_id) : id(std::move(given_id)) {}
  virtual ~Hosted() = default;
  Hosted(const Hosted&) = delete;
  Hosted& operator=(const Hosted&) = delete;

  // Implemented by each kind.
  virtual HostedTexts take_texts() = 0;
  /// Returns the members of a JSON object, without braces, for lists, which show them even if the
  /// object is not in memory.
  virtual std::string summary_text() const = 0;
  virtual Seconds heard() const = 0;  ///< last time at which a client took part in it
  virtual std::optional<Seconds> ended() const = 0;  ///< when it ended in order; nullopt if not
  virtual std::size_t memory() const = 0;  ///< approximate bytes; O(1) unless it has changed
  virtual bool asleep() const = 0;
  virtual void go_on(Seconds now) = 0;
  /// Records that a client that takes part in the object is listening.
  virtual void hear(Seconds now) = 0;
  /// Called about once a second while the object is active.
  virtual void tick(Seconds now) = 0;
  /// Returns the effects gathered since the last call. Called after each event of the object.
  virtual HostedEffects take_effects(Seconds now) = 0;
  /// Called about once a second while the object is not active: it cancels work that can wait.
  virtual void rest() {}
  /// Called when the object is over or leaves memory: it cancels all work.
  virtual void leave() {}

  /// Returns the current summary, or the stored one if the object is asleep.
  JobSummary summary() const;

  const std::string id;
  JobClaim claim{.epoch = 1};  ///< the claim under which this server has it
  bool deleted = false;
  bool moved = false;     ///< another server has it now, or may have it
  bool unloaded = false;  ///< it is only in the store; another object may represent it
  bool is_over() const { return deleted || moved || unloaded; }
  JobListeners listeners;
  std::deque<LoggedEvent> events;  ///< the newest events
  std::int64_t newest_event = 0;

  // For hosting.
  Instant used;  ///< time of the last request for it
  /// True if it has changed since it was last saved in a way that need not be stored immediately,
  /// such as reports of iterations.
  bool touched = false;
  std::string stored_summary;      ///< the summary in the store, while the object is asleep
  std::size_t memory_counted = 0;  ///< value of `memory` that `HostedTable` has counted
  /// The client (`HttpRequest::client`) whose share of the memory for jobs this job takes: the
  /// client that registered the job, or, after it was read from the store, the first client that
  /// registers a rank or another specification. Empty if there is none yet: reading a job takes no
  /// share.
  std::string client;

  SaveState saving;
};
using HostedPtr = std::shared_ptr<Hosted>;

}  // namespace harpe::training
