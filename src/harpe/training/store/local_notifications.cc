#include "harpe/training/store/local_notifications.h"

#include <utility>

namespace harpe {

LocalNotifications::~LocalNotifications() {
  const MutexLock one_at_a_time(listening_);
  stop();
}

void LocalNotifications::listen(std::function<void(const StoreNotification&)> hear) {
  const MutexLock one_at_a_time(listening_);
  stop();
  if (!hear) return;
  {
    const MutexLock lock(mutex_);
    wanted_ = true;
    waiting_.assign({StoreNotification{StoreNotification::Kind::kLookAgain, "", false}});
  }
  thread_ = std::thread([this, hear = std::move(hear)] { deliver(hear); });
}

void LocalNotifications::announce(const std::string& text) {
  const MutexLock lock(mutex_);
  if (!wanted_) return;
  waiting_.push_back({StoreNotification::Kind::kAnnounced, text, true});
  arrived_.notify_one();
}

void LocalNotifications::stop() {
  {
    const MutexLock lock(mutex_);
    wanted_ = false;
    arrived_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void LocalNotifications::deliver(const std::function<void(const StoreNotification&)>& hear) {
  MutexLock lock(mutex_);
  while (true) {
    arrived_.wait(mutex_,
                  [this]() HARPE_REQUIRES(mutex_) { return !wanted_ || !waiting_.empty(); });
    if (!wanted_) return;
    const StoreNotification notification = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    hear(notification);
    lock.lock();
  }
}

}  // namespace harpe
