#pragma once
/// \file
/// The database of several servers in simulated time: what PostgreSQL is for them (store.h), in
/// memory, with faults. It outlives the servers; each of them reaches it over a `SimulatedStore`
/// (simulated_store_testing.h).
///
/// What the real store sends as one statement, or as one transaction, happens here at one moment;
/// between two of them a store sleeps by the clock of its machine, if only for no time, so that
/// whatever other servers do may come between. Nothing here waits for anything else, and no lock is
/// held while a store sleeps: stores can run under a scheduler that lets one thread run at a time
/// and passes on at `Clock::sleep_until`, and just as well on threads of the system.
///
/// Names come from a counter; there is no chance and no time in it: the same calls in the same
/// order give the same answers.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/base/units.h"
#include "harpe/training/store/simulated_tables_testing.h"

namespace harpe::training {

/// What a store is about to send to its database.
struct StoreCall {
  /// Each has a connection of its own, as in the real store.
  enum class Line : unsigned char { kCalls, kLease, kListener };
  enum class Kind : unsigned char {
    kConnect,       ///< on all lines
    kOpen,          ///< brings the tables up to date
    kRead,          ///< of jobs and what belongs to them
    kWrite,         ///< `Store::write`, a transaction
    kRemoveJob,     ///< `Store::remove`, a transaction
    kPrune,         ///< a transaction
    kReadOwner,     ///< the row of one job: first of `claim` and of `owner`
    kClaim,         ///< its conditional change: last of `claim`
    kRemoveServer,  ///< one whose lease is over, at the beat that was read: between the two, and
                    ///< of the lease
    kRelease,
    kReadOwners,  ///< `owners`, `ownerless`
    kNotify,
    kCheck,
    kJoin,  ///< of the lease, as are the next three: see `LeaseStep`
    kRenew,
    kLook,
    kLeave,         ///< the row of a server that ends in order
    kListen,        ///< of the listener, as are the next two
    kNotification,  ///< one notification on its way to the listener; `before` is how long it takes
    kProbe,         ///< whether the connection of a listener that hears nothing is still there
  };
  Line line = Line::kCalls;
  Kind kind = Kind::kRead;
  std::string url;  ///< of the server that asks (`StoreOptions::url`)

  /// Whether it is a single statement that changes something.
  bool is_single_change() const {
    return writes() && kind != Kind::kWrite && kind != Kind::kRemoveJob && kind != Kind::kPrune;
  }
  /// Whether it writes something to the disk.
  bool writes() const {
    switch (kind) {
      case Kind::kWrite:
      case Kind::kRemoveJob:
      case Kind::kPrune:
      case Kind::kClaim:
      case Kind::kRemoveServer:
      case Kind::kRelease:
      case Kind::kJoin:
      case Kind::kRenew:
      case Kind::kLeave:
        return true;
      default:
        return false;
    }
  }
};

/// What becomes of a call.
struct StoreFault {
  enum class Outcome : unsigned char {
    kDone,         ///< executed and answered, if that is within the sender's time
    kRefused,      ///< no connection, said at once; not executed
    kLostBefore,   ///< never arrives: the sender gives up when its time is over
    kLostAfter,    ///< executed, but the response never arrives: the sender cannot know
    kResetBefore,  ///< the connection breaks, and the sender notices; not executed
    kResetAfter,   ///< executed, and then the same: the sender cannot know
    kLate,         ///< never answered, and executed after its sender has given up: when
                   ///< `SimulatedDatabase::execute_late` is called. What is no single statement
                   ///< that writes goes as `kLostAfter`
    kFull,         ///< no space on the disk: what writes is not executed, and fails (`kIo`)
  };
  Outcome outcome = Outcome::kDone;
  Seconds before{0};  ///< from sending to execution
  Seconds after{0};   ///< from there to the response
};

/// Thread-safe.
class SimulatedDatabase {
 public:
  SimulatedDatabase() = default;
  SimulatedDatabase(const SimulatedDatabase&) = delete;
  SimulatedDatabase& operator=(const SimulatedDatabase&) = delete;

  /// Asked before each call what is to become of it; where it is empty, all is done at once. Set
  /// it before the first store is opened. It is called by the threads of stores, with no lock held.
  std::function<StoreFault(const StoreCall&)> on_call;

  /// How often a listener looks for what has been announced, by its clock.
  Seconds listener_pause{0.01};

  /// What is committed stays; all connections end, and so do the calls that are on their way: those
  /// that arrived before were executed, the others are not. Listeners connect again and look again.
  void restart() {
    const MutexLock lock(mutex_);
    ++starts_;
    tables_.lose_listeners();
    late_.clear();
  }

  /// What has been late till now arrives (`StoreFault::Outcome::kLate`), in the order sent.
  void execute_late() {
    const MutexLock lock(mutex_);
    for (const auto& statement : std::exchange(late_, {})) statement(tables_);
  }

  /// The process of the server with this URL runs no more: from here on, other servers on its
  /// machine can prove that of the rows it has left, as `is_proven_gone` does. Call it, if at all,
  /// when the process has ended, before another one starts with the same URL.
  void process_ended(const std::string& url) {
    const MutexLock lock(mutex_);
    tables_.end_process(url);
  }

  /// Calls `body` with the tables, at one moment: for stores, and for checks of a simulation, which
  /// see here what is committed. `body` must not sleep. \returns what it returns
  template <class Body>
  auto step(const Body& body) {
    const MutexLock lock(mutex_);
    return body(tables_);
  }
  /// As above, where the database still runs as it did at the `start` (`starts`); else nothing.
  template <class Body>
  auto step(std::uint64_t start, const Body& body)
      -> std::optional<decltype(body(std::declval<SimulatedTables&>()))> {
    const MutexLock lock(mutex_);
    if (start != starts_) return std::nullopt;
    return body(tables_);
  }

  /// Keeps a statement until `execute_late`: it must refer to nothing that goes before.
  void keep_late(std::uint64_t start, std::function<void(SimulatedTables&)> statement) {
    const MutexLock lock(mutex_);
    if (start == starts_) late_.push_back(std::move(statement));
  }

  /// How often it was started.
  std::uint64_t starts() const {
    const MutexLock lock(mutex_);
    return starts_;
  }

  /// Never the same twice: for names of servers and stores.
  std::uint64_t new_number() {
    const MutexLock lock(mutex_);
    return ++last_number_;
  }

  StoreFault fault_of(const StoreCall& call) const {
    return on_call ? on_call(call) : StoreFault{};
  }

 private:
  mutable Mutex mutex_;  ///< of what follows; never held while a thread sleeps
  SimulatedTables tables_ HARPE_GUARDED_BY(mutex_);
  std::vector<std::function<void(SimulatedTables&)>> late_ HARPE_GUARDED_BY(mutex_);
  std::uint64_t starts_ HARPE_GUARDED_BY(mutex_) = 1;
  std::uint64_t last_number_ HARPE_GUARDED_BY(mutex_) = 0;
};

}  // namespace harpe::training
