#pragma once
/// \file
/// A listener for notifications between servers, with a thread and a connection of its own, which
/// reconnects whenever the connection is lost.

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "harpe/training/store/postgres_session.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// Interval at which a silent connection is checked.
inline constexpr Seconds kListenerProbe = 15_s;
/// Limit on the pause between attempts to connect, which starts at `StoreOptions::reconnect_pause`
/// and doubles.
inline constexpr Seconds kLongestListenerPause = 2_s;

class PostgresListener {
 public:
  /// `identity` is the prefix of notifications of this store (see PostgresStore).
  PostgresListener(const StoreUrl& url, const StoreOptions& options, std::string identity,
                   std::function<void(const StoreNotification&)> hear);
  PostgresListener(const PostgresListener&) = delete;
  PostgresListener& operator=(const PostgresListener&) = delete;
  ~PostgresListener();

  /// Returns true if the listener was created.
  bool ok() const { return waker_ >= 0; }

 private:
  void run();
  Status subscribe();
  Status hear_until_lost();
  void deliver(const std::string& payload);
  /// Waits for the socket, for `stop` or for the time. Returns true if the socket is readable.
  bool wait(int socket, int milliseconds) const;

  PostgresSession session_;
  const Seconds pause_;
  const std::string identity_;
  const std::function<void(const StoreNotification&)> hear_;
  int waker_ = -1;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

/// Returns the name of the channel of the session's tables.
Result<std::string> notification_channel(PostgresSession& session);

}  // namespace harpe::training
