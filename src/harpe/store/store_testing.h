#pragma once
/// \file
/// What tests of stores share.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/store/store.h"

namespace harpe {

/// A directory that goes with the test.
class TestDirectory {
 public:
  TestDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "harpe-store-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  ~TestDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Collects what a listener hears.
class Heard {
 public:
  std::function<void(const StoreNotice&)> listener() {
    return [this](const StoreNotice& notice) {
      const MutexLock lock(mutex_);
      notices_.push_back(notice);
      changed_.notify_all();
    };
  }

  /// Waits until so many were heard; what was heard by then.
  std::vector<StoreNotice> wait_for(std::size_t count) {
    MutexLock lock(mutex_);
    changed_.wait_for(mutex_, std::chrono::seconds(30),
                      [&]() HARPE_REQUIRES(mutex_) { return notices_.size() >= count; });
    return notices_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<StoreNotice> notices_ HARPE_GUARDED_BY(mutex_);
};

/// "look again" and what was announced.
inline std::vector<std::string> texts_of(const std::vector<StoreNotice>& notices) {
  std::vector<std::string> texts;
  for (const StoreNotice& notice : notices) {
    texts.push_back(notice.kind == StoreNotice::Kind::kLookAgain ? "look again" : notice.text);
  }
  return texts;
}

/// Calls until it says yes, as a server does that waits for a job to become free.
inline bool becomes_true(const std::function<bool()>& condition) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// Threads that end by themselves; waits for all of them at last.
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

#define EXPECT_OK(expression)                          \
  do {                                                 \
    const auto& done = (expression);                   \
    EXPECT_TRUE(done.ok()) << ::harpe::error_of(done); \
  } while (false)

}  // namespace harpe
