#pragma once
/// \file
/// Notices within one process, for a store that no other process can open. Thread-safe.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "harpe/store/store.h"

namespace harpe {

class LocalNotices {
 public:
  LocalNotices() = default;
  LocalNotices(const LocalNotices&) = delete;
  LocalNotices& operator=(const LocalNotices&) = delete;
  ~LocalNotices();

  /// See Store::listen.
  void listen(std::function<void(const StoreNotice&)> hear);
  void announce(const std::string& text);

 private:
  void stop();
  void deliver(const std::function<void(const StoreNotice&)>& hear);

  std::mutex listening_;  ///< one `listen` at a time
  std::mutex mutex_;      ///< of what follows
  std::condition_variable arrived_;
  std::deque<StoreNotice> waiting_;
  bool wanted_ = false;
  std::thread thread_;  ///< of `listen` alone
};

}  // namespace harpe
