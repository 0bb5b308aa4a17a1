#pragma once
/// \file
/// The database of several servers in simulated time: a model of PostgreSQL (store.h) in memory,
/// with faults. It outlives the servers. Each server accesses it through a `SimulatedStore`
/// (simulated_store_testing.h).
///
/// A statement or transaction of the real store is executed here at one moment. Between two of them
/// a store sleeps by the clock of its machine, if only for no time, so that other servers can act
/// in between. Nothing here waits, and no lock is held while a store sleeps. Stores can therefore
/// run under a scheduler that runs one thread at a time and switches at `Clock::sleep_until`, or on
/// threads of the system.
///
/// Names come from a counter. Nothing depends on chance or time: the same calls in the same order
/// give the same responses.

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

/// A call that a store is about to send to its database.
struct StoreCall {
  /// Each line has its own connection, as in the real store.
  enum class Line : unsigned char { kCalls, kLease, kListener };
  enum class Kind : unsigned char {
    kConnect,       ///< on all lines
    kOpen,          ///< brings the tables up to date
    kRead,          ///< jobs and their data
    kWrite,         ///< `Store::write`, a transaction
    kRemoveJob,     ///< `Store::remove`, a transaction
    kPrune,         ///< a transaction
    kReadOwner,     ///< the row of one job; first call of `claim` and `owner`
    kClaim,         ///< its conditional change; last call of `claim`
    kRemoveServer,  ///< a server whose lease is over, with the beat that was read;
                    ///< between these two, and by the lease
    kRelease,
    kReadOwners,  ///< `owners`, `ownerless`
    kNotify,
    kCheck,
    kJoin,  ///< by the lease, like the next three; see `LeaseStep`
    kRenew,
    kLook,
    kLeave,         ///< removes the row of a server that ends orderly
    kListen,        ///< by the listener, like the next two
    kNotification,  ///< a notification on its way to the listener, which takes `before`
    kProbe,         ///< checks the connection of a listener that receives nothing
  };
  Line line = Line::kCalls;
  Kind kind = Kind::kRead;
  std::string url;  ///< of the calling server (`StoreOptions::url`)

  /// Returns true for a single statement that changes data.
  bool is_single_change() const {
    return writes() && kind != Kind::kWrite && kind != Kind::kRemoveJob && kind != Kind::kPrune;
  }
  /// Returns true if the call writes to the disk.
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

/// The result of a call.
struct StoreFault {
  enum class Outcome : unsigned char {
    kDone,         ///< executed and answered, if within the sender's time
    kRefused,      ///< no connection, reported at once; not executed
    kLostBefore,   ///< never arrives; the sender gives up when its time is over
    kLostAfter,    ///< executed, but the response never arrives; the sender cannot know
    kResetBefore,  ///< the connection breaks, and the sender notices; not executed
    kResetAfter,   ///< executed, then the connection breaks; the sender cannot know
    kLate,         ///< never answered, and executed after its sender has given up, by
                   ///< `SimulatedDatabase::execute_late`. A call that is not a single
                   ///< statement that writes is treated as `kLostAfter`
    kFull,         ///< no space on the disk: a write is not executed, and fails (`kIo`)
  };
  Outcome outcome = Outcome::kDone;
  Seconds before{0};  ///< from sending to execution
  Seconds after{0};   ///< from execution to the response
};

/// Thread-safe.
class SimulatedDatabase {
 public:
  SimulatedDatabase() = default;
  SimulatedDatabase(const SimulatedDatabase&) = delete;
  SimulatedDatabase& operator=(const SimulatedDatabase&) = delete;

  /// Returns the fault of a call. If empty, all calls are executed at once. Set it before the first
  /// store is opened. The threads of stores call it before each call, with no lock held.
  std::function<StoreFault(const StoreCall&)> on_call;

  /// Pause of a listener between two looks for notifications, by its clock.
  Seconds listener_pause{0.01};

  /// Restarts the database. Committed data remain, and all connections and calls end: calls that
  /// arrived before were executed, the others are not. Listeners connect again and look again.
  void restart() {
    const MutexLock lock(mutex_);
    ++starts_;
    tables_.lose_listeners();
    late_.clear();
  }

  /// Executes the late calls (`StoreFault::Outcome::kLate`), in the order sent.
  void execute_late() {
    const MutexLock lock(mutex_);
    for (const auto& statement : std::exchange(late_, {})) statement(tables_);
  }

  /// Marks the process of the server with this URL as ended. From now on, other servers on its
  /// machine can prove this for the rows it has left, as with `is_proven_gone`. Call it only after
  /// the process has ended, and before another starts with the same URL.
  void process_ended(const std::string& url) {
    const MutexLock lock(mutex_);
    tables_.end_process(url);
  }

  /// Calls `body` with the tables at one moment, for stores and for checks of a simulation, which
  /// see the committed data. `body` must not sleep. Returns its result.
  template <class Body>
  auto step(const Body& body) {
    const MutexLock lock(mutex_);
    return body(tables_);
  }
  /// As above, if the database has not restarted since `start` (`starts`); otherwise nullopt.
  template <class Body>
  auto step(std::uint64_t start, const Body& body)
      -> std::optional<decltype(body(std::declval<SimulatedTables&>()))> {
    const MutexLock lock(mutex_);
    if (start != starts_) return std::nullopt;
    return body(tables_);
  }

  /// Keeps a statement until `execute_late`. Everything it refers to must live until then.
  void keep_late(std::uint64_t start, std::function<void(SimulatedTables&)> statement) {
    const MutexLock lock(mutex_);
    if (start == starts_) late_.push_back(std::move(statement));
  }

  /// Returns how often the database was started.
  std::uint64_t starts() const {
    const MutexLock lock(mutex_);
    return starts_;
  }

  /// Returns a new number each time, for names of servers and stores.
  std::uint64_t new_number() {
    const MutexLock lock(mutex_);
    return ++last_number_;
  }

  StoreFault fault_of(const StoreCall& call) const {
    return on_call ? on_call(call) : StoreFault{};
  }

 private:
  mutable Mutex mutex_;  ///< for the members below; never held while a thread sleeps
  SimulatedTables tables_ HARPE_GUARDED_BY(mutex_);
  std::vector<std::function<void(SimulatedTables&)>> late_ HARPE_GUARDED_BY(mutex_);
  std::uint64_t starts_ HARPE_GUARDED_BY(mutex_) = 1;
  std::uint64_t last_number_ HARPE_GUARDED_BY(mutex_) = 0;
};

}  // namespace harpe::training
