#include "harpe/store/local_notices.h"

#include <utility>

namespace harpe {

LocalNotices::~LocalNotices() {
  const MutexLock one_at_a_time(listening_);
  stop();
}

void LocalNotices::listen(std::function<void(const StoreNotice&)> hear) {
  const MutexLock one_at_a_time(listening_);
  stop();
  if (!hear) return;
  {
    const MutexLock lock(mutex_);
    wanted_ = true;
    waiting_.assign({StoreNotice{StoreNotice::Kind::kLookAgain, "", false}});
  }
  thread_ = std::thread([this, hear = std::move(hear)] { deliver(hear); });
}

void LocalNotices::announce(const std::string& text) {
  const MutexLock lock(mutex_);
  if (!wanted_) return;
  waiting_.push_back({StoreNotice::Kind::kAnnounced, text, true});
  arrived_.notify_one();
}

void LocalNotices::stop() {
  {
    const MutexLock lock(mutex_);
    wanted_ = false;
    arrived_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void LocalNotices::deliver(const std::function<void(const StoreNotice&)>& hear) {
  MutexLock lock(mutex_);
  while (true) {
    arrived_.wait(mutex_,
                  [this]() HARPE_REQUIRES(mutex_) { return !wanted_ || !waiting_.empty(); });
    if (!wanted_) return;
    const StoreNotice notice = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    hear(notice);
    lock.lock();
  }
}

}  // namespace harpe
