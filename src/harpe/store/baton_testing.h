#pragma once
/// \file
/// Threads of which exactly one runs at a time, in simulated time.

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "harpe/base/clock.h"

namespace harpe {

/// A clock that hands the run on where a thread sleeps: to the one that wakes up first, and of
/// those that wake up at one time to the one that went to sleep first. The thread that makes it is
/// the first to run; at last it waits for the others.
class Baton final : public Clock {
 public:
  Baton() = default;
  Baton(const Baton&) = delete;
  Baton& operator=(const Baton&) = delete;
  ~Baton() override {
    while (sleepers() > 0) sleep_until(now() + 1_s);
    for (std::thread& thread : threads_) thread.join();
  }

  Instant now() const override {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  void sleep_until(Instant until) override {
    std::unique_lock lock(mutex_);
    const std::uint64_t me = enter(until);
    pass_on();
    wait_for_turn(lock, me);
  }

  /// A thread that begins when the caller sleeps.
  void start(std::function<void()> body) {
    const std::lock_guard lock(mutex_);
    threads_.emplace_back([this, me = enter(now_), body = std::move(body)] {
      {
        std::unique_lock begin(mutex_);
        wait_for_turn(begin, me);
      }
      body();
      const std::lock_guard end(mutex_);
      pass_on();
    });
  }

  /// How many threads there are beside the one that asks.
  std::size_t sleepers() const {
    const std::lock_guard lock(mutex_);
    return sleeping_.size();
  }

 private:
  std::uint64_t enter(Instant until) {
    sleeping_.emplace(std::max(until, now_), ++last_);
    return last_;
  }
  void pass_on() {
    const auto first = sleeping_.begin();
    now_ = first->first;
    turn_ = first->second;
    sleeping_.erase(first);
    changed_.notify_all();
  }
  void wait_for_turn(std::unique_lock<std::mutex>& lock, std::uint64_t me) {
    changed_.wait(lock, [&] { return turn_ == me; });
  }

  mutable std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  Instant now_;
  std::set<std::pair<Instant, std::uint64_t>> sleeping_;  ///< until when, and who
  std::uint64_t last_ = 0, turn_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace harpe
