#include "harpe/training/store/postgres_listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace harpe::training {

Result<std::string> notification_channel(PostgresSession& session) {
  // Named by the table, so that installations in different schemas of one database are separate.
  const auto rows = HARPE_TRY(session.query("SELECT 'harpe_owner'::regclass::oid::bigint"));
  return "harpe_" + std::to_string(rows.integer(0, 0));
}

PostgresListener::PostgresListener(const StoreUrl& url, const StoreOptions& options,
                                   std::string identity,
                                   std::function<void(const StoreNotification&)> hear)
    : session_(url, options.timeout),
      pause_(options.reconnect_pause),
      identity_(std::move(identity)),
      hear_(std::move(hear)),
      waker_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (ok()) thread_ = std::thread([this] { run(); });
}

PostgresListener::~PostgresListener() {
  stopping_ = true;
  if (!ok()) return;
  const std::uint64_t one = 1;
  while (::write(waker_, &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
  ::close(waker_);
}

void PostgresListener::run() {
  Seconds pause = pause_;
  while (!stopping_) {
    Status heard = session_.connect();
    if (heard.ok()) heard = subscribe();
    if (heard.ok()) {
      pause = pause_;
      // Notifications sent without a connection are lost: the tables must be read again.
      hear_({StoreNotification::Kind::kLookAgain, "", false});
      heard = hear_until_lost();
    }
    session_.disconnect();
    if (stopping_) return;
    wait(-1, static_cast<int>(pause.value * 1000));
    pause = std::min(pause * 2, kLongestListenerPause);
  }
}

Status PostgresListener::subscribe() {
  const std::string channel = HARPE_TRY(notification_channel(session_));
  // The name of a channel cannot be a parameter; this name is made from a number.
  HARPE_TRY(session_.query(("LISTEN " + channel).c_str()));
  return ok_status();
}

Status PostgresListener::hear_until_lost() {
  while (!stopping_) {
    while (const auto notification = session_.next_event()) {
      if (stopping_) return ok_status();
      deliver(*notification);
    }
    if (wait(session_.socket(), static_cast<int>(kListenerProbe.value * 1000))) {
      HARPE_TRY(session_.take_in());
    } else if (!stopping_) {
      HARPE_TRY(session_.query("SELECT 1"));
    }
  }
  return ok_status();
}

void PostgresListener::deliver(const std::string& payload) {
  if (payload.size() < identity_.size()) return;  // from another program
  hear_({StoreNotification::Kind::kAnnounced, payload.substr(identity_.size()),
         payload.starts_with(identity_)});
}

bool PostgresListener::wait(int socket, int milliseconds) const {
  std::array<pollfd, 2> ready{{{waker_, POLLIN, 0}, {socket, POLLIN, 0}}};
  return ::poll(ready.data(), ready.size(), milliseconds) > 0 && ready[1].revents != 0;
}

}  // namespace harpe::training
