#pragma once
/// \file
/// Hears what servers announce to each other, over a connection of its own that is made again
/// whenever it is lost. A thread of its own.

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "harpe/training/store/postgres_session.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// A connection that says nothing is asked whether it is still there so often.
inline constexpr Seconds kListenerProbe = 15_s;
/// Between two attempts to connect; it begins at `StoreOptions::reconnect_pause` and doubles.
inline constexpr Seconds kLongestListenerPause = 2_s;

class PostgresListener {
 public:
  /// `identity` begins the notifications of this store (see PostgresStore).
  PostgresListener(const StoreUrl& url, const StoreOptions& options, std::string identity,
                   std::function<void(const StoreNotification&)> hear);
  PostgresListener(const PostgresListener&) = delete;
  PostgresListener& operator=(const PostgresListener&) = delete;
  ~PostgresListener();

  /// Whether the kernel gave what is needed.
  bool ok() const { return waker_ >= 0; }

 private:
  void run();
  Status subscribe();
  Status hear_until_lost();
  void deliver(const std::string& payload);
  /// Waits for the socket, for `stop` or for the time; whether the socket has something.
  bool wait(int socket, int milliseconds) const;

  PostgresSession session_;
  const Seconds pause_;
  const std::string identity_;
  const std::function<void(const StoreNotification&)> hear_;
  int waker_ = -1;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

/// The channel of the tables that the session sees.
Result<std::string> notification_channel(PostgresSession& session);

}  // namespace harpe::training
