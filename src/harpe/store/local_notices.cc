#include "harpe/store/local_notices.h"

#include <utility>

namespace harpe {

LocalNotices::~LocalNotices() {
  stop();
}

void LocalNotices::listen(std::function<void(const StoreNotice&)> hear) {
  const std::lock_guard one_at_a_time(listening_);
  stop();
  if (!hear) return;
  {
    const std::lock_guard lock(mutex_);
    wanted_ = true;
    waiting_.assign({StoreNotice{StoreNotice::Kind::kLookAgain, "", false}});
  }
  thread_ = std::thread([this, hear = std::move(hear)] { deliver(hear); });
}

void LocalNotices::announce(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (!wanted_) return;
  waiting_.push_back({StoreNotice::Kind::kAnnounced, text, true});
  arrived_.notify_one();
}

void LocalNotices::stop() {
  {
    const std::lock_guard lock(mutex_);
    wanted_ = false;
    arrived_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void LocalNotices::deliver(const std::function<void(const StoreNotice&)>& hear) {
  std::unique_lock lock(mutex_);
  while (true) {
    arrived_.wait(lock, [this] { return !wanted_ || !waiting_.empty(); });
    if (!wanted_) return;
    const StoreNotice notice = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    hear(notice);
    lock.lock();
  }
}

}  // namespace harpe
