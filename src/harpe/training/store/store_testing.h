#pragma once
/// \file
/// Helpers for tests of stores.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harpe/base/eventually_testing.h"
#include "harpe/base/mutex.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// Writes one job. Returns `kConflict` if the store left it as it was.
inline Status save(Store& store, const StoredJob& job,
                   std::optional<std::string> plans = std::nullopt) {
  const auto refused = HARPE_TRY(
      store.write({.jobs = {{job, std::move(plans)}}, .events = {}, .notifications = {}}));
  if (refused.empty()) return ok_status();
  return Error::of(ErrorCode::kConflict, "job " + job.id +
                                             " was changed by another server since: revision " +
                                             std::to_string(job.revision) + " is not saved");
}

/// Writes one event.
inline Status append(Store& store, const StoredEvent& event) {
  const auto refused = HARPE_TRY(store.write({.jobs = {}, .events = {event}, .notifications = {}}));
  if (refused.empty()) return ok_status();
  return Error::of(ErrorCode::kConflict, "job " + event.job + " is another server's");
}

/// Collects the notifications of a listener.
class Heard {
 public:
  std::function<void(const StoreNotification&)> listener() {
    return [this](const StoreNotification& notification) {
      const MutexLock lock(mutex_);
      notifications_.push_back(notification);
      changed_.notify_all();
    };
  }

  /// Waits for `count` notifications. Returns all that have arrived by then.
  std::vector<StoreNotification> wait_for(std::size_t count) {
    MutexLock lock(mutex_);
    changed_.wait_for(mutex_, std::chrono::seconds(30),
                      [&]() HARPE_REQUIRES(mutex_) { return notifications_.size() >= count; });
    return notifications_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<StoreNotification> notifications_ HARPE_GUARDED_BY(mutex_);
};

/// Returns "look again" and the announced texts.
inline std::vector<std::string> texts_of(const std::vector<StoreNotification>& notifications) {
  std::vector<std::string> texts;
  for (const StoreNotification& notification : notifications) {
    texts.push_back(notification.kind == StoreNotification::Kind::kLookAgain ? "look again"
                                                                             : notification.text);
  }
  return texts;
}

/// A short timeout, and a shorter pause before the next attempt.
inline const StoreOptions kImpatient{.timeout = 0.5_s, .reconnect_pause = 0.02_s};

/// Returns the options of a server that may own jobs.
inline StoreOptions server_options(const std::string& url, const LeaseTimes& lease = {}) {
  StoreOptions options = kImpatient;
  options.url = url;
  options.lease = lease;
  return options;
}
/// The owner of a job as reported to the server with this URL, and to all others.
inline std::optional<JobOwner> own(const std::string& url) {
  return JobOwner{url, true};
}
inline std::optional<JobOwner> others(const std::string& url) {
  return JobOwner{url, false};
}

/// Threads that end by themselves. The destructor waits for all of them.
class JoinedThreads {
 public:
  JoinedThreads() = default;
  JoinedThreads(const JoinedThreads&) = delete;
  JoinedThreads& operator=(const JoinedThreads&) = delete;
  ~JoinedThreads() {
    for (std::thread& thread : threads_) thread.join();
  }
  void start(std::function<void()> body) {
    const MutexLock lock(mutex_);
    threads_.emplace_back(std::move(body));
  }

 private:
  Mutex mutex_;
  std::vector<std::thread> threads_ HARPE_GUARDED_BY(mutex_);
};

inline std::unique_ptr<Store> opened(Result<std::unique_ptr<Store>> store) {
  EXPECT_TRUE(store.ok()) << (store.ok() ? "" : store.error().text());
  return store.ok() ? *std::move(store) : nullptr;
}
inline std::unique_ptr<Store> opened(const std::string& url, const StoreOptions& options = {}) {
  return opened(Store::open(url, options));
}

template <class T>
std::string error_of(const Result<T>& result) {
  return result.ok() ? "no error"
                     : std::string(name_of(result.error().code)) + ": " + result.error().text();
}

#define EXPECT_OK(expression)                                    \
  do {                                                           \
    const auto& done = (expression);                             \
    EXPECT_TRUE(done.ok()) << ::harpe::training::error_of(done); \
  } while (false)

}  // namespace harpe::training
