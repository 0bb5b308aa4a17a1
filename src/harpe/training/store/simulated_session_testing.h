#pragma once
/// \file
/// One connection to a `SimulatedDatabase`, and the process that has it: the course of calls with
/// faults, and the results for the caller, as with PostgresSession. See
/// simulated_database_testing.h.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "harpe/base/clock.h"
#include "harpe/base/mutex.h"
#include "harpe/base/result.h"
#include "harpe/base/text.h"
#include "harpe/training/store/postgres_session.h"
#include "harpe/training/store/simulated_database_testing.h"

namespace harpe::training {

/// The process in which a store runs. Any of its threads may call these functions.
struct StoreProcess {
  /// Runs the body on another thread of the process, now or later. The body returns when it next
  /// wakes up after the store is gone or the process is dead.
  std::function<void(std::function<void()>)> start_thread;
  /// Returns true if the process was killed; from then on it has no effect. Empty: never killed.
  std::function<bool()> dead = nullptr;
  /// Its machine: others there can prove that it ended (`SimulatedDatabase::process_ended`).
  std::string machine = {};

  bool is_dead() const { return dead && dead(); }
};

inline Error process_is_dead() {
  return Error::of(ErrorCode::kUnavailable, "the process of this store was killed");
}

/// Interval of checks for the progress of another thread: the end of a call, or of `hear`.
inline constexpr Seconds kSimulatedTick{0.001};

/// Callers that wait for each other by sleeping, in the order of arrival. Thread-safe.
class SimulatedQueue {
 public:
  explicit SimulatedQueue(Clock& clock) : clock_(clock) {}

  /// The turn of a caller, from the constructor, which waits, to the destructor. In a dead process
  /// the constructor does not wait, and the caller has no turn.
  class Turn {
   public:
    Turn(SimulatedQueue& queue, const StoreProcess& process)
        : queue_(queue), number_(queue.enter()) {
      while (!queue_.is_first(number_) && !process.is_dead()) {
        queue_.clock_.sleep_until(queue_.look_again());
      }
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { queue_.leave(number_); }

   private:
    SimulatedQueue& queue_;
    const std::uint64_t number_;
  };

  /// Lets the caller whose turn it is do nothing before `until`.
  void busy_until(Instant until) {
    const MutexLock lock(mutex_);
    busy_until_ = until;
  }

 private:
  std::uint64_t enter() {
    const MutexLock lock(mutex_);
    waiting_.push_back(++last_);
    return last_;
  }
  bool is_first(std::uint64_t number) const {
    const MutexLock lock(mutex_);
    return waiting_.front() == number;
  }
  Instant look_again() const {
    const MutexLock lock(mutex_);
    return std::max(busy_until_, clock_.now() + kSimulatedTick);
  }
  void leave(std::uint64_t number) {
    const MutexLock lock(mutex_);
    std::erase(waiting_, number);
  }

  Clock& clock_;
  mutable Mutex mutex_;
  std::deque<std::uint64_t> waiting_ HARPE_GUARDED_BY(mutex_);
  std::uint64_t last_ HARPE_GUARDED_BY(mutex_) = 0;
  Instant busy_until_ HARPE_GUARDED_BY(mutex_);
};

/// Not thread-safe.
class SimulatedSession {
 public:
  using Kind = StoreCall::Kind;

  /// `timeout` is as for PostgresSession. All references must outlive this. \param callers  queue
  /// of the callers that share this; null: a single user
  SimulatedSession(SimulatedDatabase& database, const StoreProcess& process, Clock& clock,
                   std::string url, StoreCall::Line line, Seconds timeout,
                   SimulatedQueue* callers = nullptr)
      : database_(database),
        process_(process),
        clock_(clock),
        url_(std::move(url)),
        line_(line),
        timeout_(timeout),
        callers_(callers) {}
  SimulatedSession(const SimulatedSession&) = delete;
  SimulatedSession& operator=(const SimulatedSession&) = delete;

  /// Closes the connection, if any, and opens a new one.
  Status connect() {
    disconnect();
    if (process_.is_dead()) return process_is_dead();
    start_ = database_.starts();
    // As in libpq: whole seconds, at least two.
    const Seconds patience{std::max(2.0, std::ceil(timeout_.value))};
    const auto connected =
        send(Kind::kConnect, patience, [](SimulatedTables&) { return std::monostate(); });
    return connected.ok() ? ok_status() : Status(connected.error());
  }

  void disconnect() {
    start_.reset();
    silent_ = false;
  }

  /// Returns true if there is a connection that the database has not closed.
  bool is_alive() {
    if (process_.is_dead()) return false;
    if (start_ && database_.starts() != *start_) disconnect();
    return start_.has_value();
  }

  /// Executes one statement or transaction: calls `body` with the tables, unless a fault prevents
  /// it. For a single change, `body` must own copies of all its data (see
  /// `StoreFault::Outcome::kLate`). Returns the result of `body`.
  template <class Body>
  auto run(Kind kind, const Body& body)
      -> Result<decltype(body(std::declval<SimulatedTables&>()))> {
    if (process_.is_dead()) return process_is_dead();
    if (!start_) return lost("there is no connection");
    return send(kind, timeout_ + kStatementGrace, body);
  }

  /// From now on nothing passes the connection, and neither side knows.
  void fall_silent() { silent_ = true; }
  bool is_silent() const { return silent_; }

 private:
  /// The course of a call.
  struct Course {
    Seconds before{0}, after{0};
    bool executed = true;
    bool full = false;
    bool late = false;
    std::string lost = {};  ///< why there is no response; empty if there is one
  };

  Course course_of(const StoreCall& call, Seconds patience) const {
    using Outcome = StoreFault::Outcome;
    const StoreFault fault =
        silent_ ? StoreFault{.outcome = Outcome::kLostBefore} : database_.fault_of(call);
    Course course{.before = fault.before, .after = fault.after};
    const std::string reset = "connection reset by peer";
    switch (fault.outcome) {
      case Outcome::kDone:
        break;
      case Outcome::kRefused:
        return {.executed = false, .lost = "connection refused"};
      case Outcome::kLostBefore:
        course.before = patience;
        break;
      case Outcome::kLate:
        course.late = call.is_single_change();
        course.executed = !course.late;
        course.after = patience;
        break;
      case Outcome::kLostAfter:
        course.after = patience;
        break;
      case Outcome::kResetBefore:
        course.executed = false;
        course.lost = reset;
        break;
      case Outcome::kResetAfter:
        course.lost = reset;
        break;
      case Outcome::kFull:
        course.full = call.writes();
        course.executed = !course.full;
        break;
    }
    // A call that takes longer than the sender waits is lost, too.
    if (course.before + course.after < patience) return course;
    course.lost = "no answer for " + shortest(timeout_.value) + " s";
    course.executed = course.executed && course.before < patience;
    course.before = std::min(course.before, patience);
    course.after = patience - course.before;
    return course;
  }

  template <class Body>
  auto send(Kind kind, Seconds patience, const Body& body)
      -> Result<decltype(body(std::declval<SimulatedTables&>()))> {
    std::optional<decltype(body(std::declval<SimulatedTables&>()))> response;
    const Course course = course_of({.line = line_, .kind = kind, .url = url_}, patience);
    if (!sleep(course.before)) return process_is_dead();
    if (course.late) {
      database_.keep_late(*start_, [body](SimulatedTables& tables) { (void)body(tables); });
    }
    if (course.executed) {
      response = database_.step(*start_, body);
      if (!response) return lost("the database was stopped");
    }
    if (!sleep(course.after)) return process_is_dead();
    if (!course.lost.empty()) return lost(course.lost);
    if (database_.starts() != *start_) return lost("the database was stopped");
    if (course.full) {
      return Error::of(ErrorCode::kIo,
                       "the database's disk is full: this change was not saved [53100]");
    }
    return *std::move(response);
  }

  /// Sleeps. Returns false if the process is dead afterwards.
  bool sleep(Seconds time) {
    const Instant until = clock_.now() + time;
    if (callers_ != nullptr) callers_->busy_until(until);
    clock_.sleep_until(until);
    return !process_.is_dead();
  }

  Error lost(const std::string& why) {
    disconnect();
    return Error::of(ErrorCode::kUnavailable,
                     "the connection to the simulated database was lost: " + why);
  }

  SimulatedDatabase& database_;
  const StoreProcess& process_;
  Clock& clock_;
  const std::string url_;
  const StoreCall::Line line_;
  const Seconds timeout_;
  SimulatedQueue* const callers_;
  std::optional<std::uint64_t> start_;  ///< the database start of the connection
  bool silent_ = false;
};

}  // namespace harpe::training
