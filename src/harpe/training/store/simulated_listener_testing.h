#pragma once
/// \file
/// The listener for notifications of servers over a `SimulatedDatabase`: PostgresListener, with a
/// given clock.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "harpe/base/clock.h"
#include "harpe/base/mutex.h"
#include "harpe/training/store/postgres_listener.h"
#include "harpe/training/store/simulated_session_testing.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// Thread-safe. Its thread keeps it alive until it next wakes up.
class SimulatedListener : public std::enable_shared_from_this<SimulatedListener> {
 public:
  /// \param store  its own store, to recognize that store's notifications
  SimulatedListener(SimulatedDatabase& database, StoreProcess process, const StoreOptions& options,
                    std::uint64_t store, std::function<void(const StoreNotification&)> hear)
      : database_(database),
        process_(std::move(process)),
        options_(options),
        clock_(*options.clock),
        session_(database, process_, clock_, options.url, StoreCall::Line::kListener,
                 options.timeout),
        store_(store),
        number_(database.new_number()),
        hear_(std::move(hear)) {}
  SimulatedListener(const SimulatedListener&) = delete;
  SimulatedListener& operator=(const SimulatedListener&) = delete;

  void start() {
    process_.start_thread([self = shared_from_this()] { self->run(); });
  }

  /// Returns when no call of `hear` is running.
  void stop() {
    MutexLock lock(mutex_);
    stopping_ = true;
    while (hearing_) {
      lock.unlock();
      clock_.sleep_until(clock_.now() + kSimulatedTick);
      lock.lock();
    }
    const auto gone = std::exchange(hear_, nullptr);
    lock.unlock();
    unlisten();
  }

 private:
  void run() {
    Seconds pause = options_.reconnect_pause;
    while (goes_on()) {
      Status heard = session_.connect();
      if (heard.ok()) heard = subscribe();
      if (heard.ok()) {
        pause = options_.reconnect_pause;
        // Notifications without a connection are lost. Only a look at the tables shows the changes.
        tell({StoreNotification::Kind::kLookAgain, "", false});
        hear_until_lost();
      }
      session_.disconnect();
      if (!goes_on()) return;
      unlisten();
      clock_.sleep_until(clock_.now() + pause);
      pause = std::min(pause * 2, kLongestListenerPause);
    }
  }

  Status subscribe() {
    const auto done = session_.run(StoreCall::Kind::kListen, [this](SimulatedTables& tables) {
      tables.listen(number_);
      return std::monostate();
    });
    return done.ok() ? ok_status() : Status(done.error());
  }

  void unlisten() {
    if (process_.is_dead()) return;  // no one reads its notifications
    database_.step([this](SimulatedTables& tables) {
      tables.unlisten(number_);
      return std::monostate();
    });
  }

  /// A notification that the database has sent, and its time of arrival.
  struct Underway {
    Instant arrives;
    StoreNotification notification;
  };

  void hear_until_lost() {
    std::deque<Underway> underway;
    Instant last_sign = clock_.now();
    bool breaks = false;
    while (goes_on()) {
      auto sent = database_.step([this](SimulatedTables& tables) { return tables.take(number_); });
      if (!sent) return;
      for (const SimulatedTables::Notification& notification : *sent) {
        if (!breaks && !session_.is_silent()) breaks = !send(notification, underway);
      }
      while (!underway.empty() && underway.front().arrives <= clock_.now()) {
        const StoreNotification notification = std::move(underway.front().notification);
        underway.pop_front();
        if (!tell(notification)) return;
        last_sign = clock_.now();
      }
      if (breaks && underway.empty()) return;
      if (clock_.now() - last_sign >= kListenerProbe) {
        if (!session_.run(StoreCall::Kind::kProbe, [](SimulatedTables&) { return true; }).ok())
          return;
        last_sign = clock_.now();
      }
      Instant wake = clock_.now() + database_.listener_pause;
      if (!underway.empty()) wake = std::min(wake, underway.front().arrives);
      clock_.sleep_until(wake);
    }
  }

  /// Sends a notification after earlier ones. Returns false if the connection breaks.
  bool send(const SimulatedTables::Notification& notification, std::deque<Underway>& underway) {
    using Outcome = StoreFault::Outcome;
    const StoreFault fault = database_.fault_of({.line = StoreCall::Line::kListener,
                                                 .kind = StoreCall::Kind::kNotification,
                                                 .url = options_.url});
    switch (fault.outcome) {
      case Outcome::kDone:
      case Outcome::kFull:
        break;
      case Outcome::kLostBefore:
      case Outcome::kLostAfter:
      case Outcome::kLate:
        session_.fall_silent();
        return true;
      case Outcome::kRefused:
      case Outcome::kResetBefore:
      case Outcome::kResetAfter:
        return false;
    }
    Instant arrives = clock_.now() + fault.before;
    if (!underway.empty()) arrives = std::max(arrives, underway.back().arrives);
    underway.push_back(
        {arrives,
         {StoreNotification::Kind::kAnnounced, notification.text, notification.store == store_}});
    return true;
  }

  /// Delivers a notification. Returns false after `stop`, or if the process is dead.
  bool tell(const StoreNotification& notification) {
    MutexLock lock(mutex_);
    if (stopping_ || process_.is_dead()) return false;
    hearing_ = true;
    lock.unlock();
    const Hearing until_heard(*this);
    hear_(notification);
    return true;
  }

  /// Marks the end of a call of `hear`, however it ends.
  class Hearing {
   public:
    explicit Hearing(SimulatedListener& listener) : listener_(listener) {}
    Hearing(const Hearing&) = delete;
    Hearing& operator=(const Hearing&) = delete;
    ~Hearing() {
      const MutexLock lock(listener_.mutex_);
      listener_.hearing_ = false;
    }

   private:
    SimulatedListener& listener_;
  };

  bool goes_on() const {
    const MutexLock lock(mutex_);
    return !stopping_ && !process_.is_dead();
  }

  SimulatedDatabase& database_;
  const StoreProcess process_;
  const StoreOptions options_;
  Clock& clock_;
  SimulatedSession session_;  ///< used by the thread
  const std::uint64_t store_;
  const std::uint64_t number_;  ///< identifies the listener in the database

  mutable Mutex mutex_;  ///< for the members below; never held over a sleep
  bool stopping_ HARPE_GUARDED_BY(mutex_) = false, hearing_ HARPE_GUARDED_BY(mutex_) = false;
  std::function<void(const StoreNotification&)> hear_;  ///< called only while `hearing_`
};

}  // namespace harpe::training
