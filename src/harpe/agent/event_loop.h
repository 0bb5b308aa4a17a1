#pragma once
/// \file
/// One thread that waits for many descriptors and points in time: epoll and a timer on
/// CLOCK_BOOTTIME, so that what is due comes due also after the machine was suspended.

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/mutex.h"
#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"

namespace harpe {

class EventLoop {
 public:
  EventLoop();
  /// Whether the kernel gave what is needed.
  Status ready() const;

  /// Runs until `stop`. What is registered is called on this thread.
  void run();

  // From any thread.
  void stop();
  void post(std::function<void()> work);

  // On the loop's thread, or before it runs.
  void add(int descriptor, std::function<void()> on_readable);
  void remove(int descriptor);
  /// Calls `when_due` at that time of the system's clock, once; replaces what was set before.
  void set_timer(std::optional<Instant> time, std::function<void()> when_due);
  /// Calls `work` once after that time.
  void after(Seconds delay, std::function<void()> work);

 private:
  void run_posted();
  void run_due();
  void arm();

  UniqueFd epoll_, waker_, timer_;
  std::atomic<bool> stopping_ = false;
  Mutex mutex_;
  std::vector<std::function<void()>> posted_ HARPE_GUARDED_BY(mutex_);
  // What follows belongs to the loop's thread.
  std::map<int, std::function<void()>> callbacks_;
  std::optional<Instant> due_;  ///< of `when_due_`
  std::function<void()> when_due_;
  std::multimap<Instant, std::function<void()>> delayed_;
};

}  // namespace harpe
