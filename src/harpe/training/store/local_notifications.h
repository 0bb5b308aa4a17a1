#pragma once
/// \file
/// Notices within one process, for a store that no other process can open. Thread-safe.

#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "harpe/base/mutex.h"
#include "harpe/training/store/store.h"

namespace harpe {

class LocalNotifications {
 public:
  LocalNotifications() = default;
  LocalNotifications(const LocalNotifications&) = delete;
  LocalNotifications& operator=(const LocalNotifications&) = delete;
  ~LocalNotifications();

  /// See Store::listen.
  void listen(std::function<void(const StoreNotification&)> hear);
  void announce(const std::string& text);

 private:
  void stop() HARPE_REQUIRES(listening_);
  void deliver(const std::function<void(const StoreNotification&)>& hear);

  Mutex listening_;  ///< one `listen` at a time
  Mutex mutex_;      ///< of what follows
  CondVar arrived_;
  std::deque<StoreNotification> waiting_ HARPE_GUARDED_BY(mutex_);
  bool wanted_ HARPE_GUARDED_BY(mutex_) = false;
  std::thread thread_ HARPE_GUARDED_BY(listening_);  ///< of `listen` alone
};

}  // namespace harpe
