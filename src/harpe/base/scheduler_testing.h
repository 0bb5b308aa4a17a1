#pragma once
/// \file
/// Simulated time: events and threads run one after another, in an order that depends only on the
/// calls to the scheduler.
///
/// Events run to completion. Threads run code that waits in the middle of its work, such as for a
/// database. Each is a system thread, because it needs its own stack, but runs only while the
/// scheduler waits for it, and returns control when it sleeps. So at most one thread runs at a
/// time, threads are interrupted only where they sleep, and no locks are needed.
///
/// The thread that makes a scheduler may also sleep by it. The other threads run in the meantime.

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <queue>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

#include "harpe/base/clock.h"

namespace harpe {

/// Keeps this thread, and the threads it starts, on one CPU during its lifetime. Two threads that
/// wait for each other lose half of their time if each switch wakes the next thread on another CPU,
/// and nine tenths if the machine has other work.
class OneCpu {
 public:
  OneCpu() {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
    is_set_ = ::sched_getaffinity(0, sizeof before_, &before_) == 0 &&
              ::sched_setaffinity(0, sizeof one, &one) == 0;
  }
  ~OneCpu() {
    if (is_set_) ::sched_setaffinity(0, sizeof before_, &before_);
  }
  OneCpu(const OneCpu&) = delete;
  OneCpu& operator=(const OneCpu&) = delete;

 private:
  cpu_set_t before_{};
  bool is_set_ = false;
};

class Scheduler {
 public:
  class Thread {
   public:
    Thread() : thread_([this] { run(); }) {}
    ~Thread() {
      go_.release();
      thread_.join();
    }
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;

   private:
    friend class Scheduler;
    bool is_idle() const { return body_ == nullptr; }
    /// Lets the thread run until it sleeps or its body returns.
    void go() {
      go_.release();
      back_.acquire();
    }
    /// Returns control to the scheduler. Called by the thread itself.
    void rest() {
      back_.release();
      go_.acquire();
    }
    void run() {
      for (;;) {
        go_.acquire();
        if (body_ == nullptr) return;
        body_();
        body_ = nullptr;
        ++nap_;
        back_.release();
      }
    }

    std::function<void()> body_;
    std::uint64_t nap_ = 0;  ///< number of sleeps; the timer of an earlier sleep is ignored
    std::binary_semaphore go_{0}, back_{0};
    std::thread thread_;  // last, because it uses the members above
  };

  Scheduler() = default;
  /// Runs until all threads have ended.
  ~Scheduler() {
    for (int i = 0; i < kLongestEnd && !is_idle(); ++i) run_until(now_ + Seconds{1});
    if (!is_idle()) fail("a thread does not end");
  }
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Returns the time since the scheduler was made, the same for all threads.
  Instant now() const { return now_; }
  /// Schedules an event. Events at the same time run in the order of these calls.
  void at(Instant when, std::function<void()> event) {
    events_.push({std::max(when, now_), numbers_++, std::move(event)});
  }
  void after(Seconds delay, std::function<void()> event) { at(now_ + delay, std::move(event)); }
  /// Runs `body` as a thread, starting now, after the events that are due now.
  void start(std::function<void()> body) {
    ++alive_;
    at(now_, [this, body = std::move(body)]() mutable {
      if (idle_.empty()) idle_.push_back(threads_.emplace_back(std::make_unique<Thread>()).get());
      Thread& thread = *idle_.back();
      idle_.pop_back();
      thread.body_ = std::move(body);
      turn(thread);
    });
  }

  /// Runs all events until `end`.
  void run_until(Instant end) {
    while (!events_.empty() && events_.top().at <= end) step();
    now_ = std::max(now_, end);
  }
  std::uint64_t events() const { return happened_; }
  /// Returns true if all threads have ended.
  bool is_idle() const { return alive_ == 0; }

  /// Returns the running thread, or null in an event or in the thread that made the scheduler.
  Thread* running() const { return running_; }
  /// Sleeps until `until`, or until woken. An event must not sleep, since it would block the loop
  /// of a process.
  void sleep_until(Instant until) {
    if (running_ == nullptr) return let_others(until);
    Thread& thread = *running_;
    at(until, [this, &thread, nap = ++thread.nap_] { resume(thread, nap); });
    thread.rest();
  }
  /// Wakes a thread that sleeps in `sleep_until`, after the events that are due now.
  void wake(Thread& thread) {
    at(now_, [this, &thread, nap = thread.nap_] { resume(thread, nap); });
  }

 private:
  static constexpr int kLongestEnd = 3600;  // s
  struct Event {
    Instant at;
    std::uint64_t number;
    std::function<void()> work;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.at != b.at ? a.at > b.at : a.number > b.number;
    }
  };

  [[noreturn]] static void fail(const char* what) {
    std::fprintf(stderr, "simulated time: %s\n", what);
    std::abort();
  }
  void step() {
    // `top` is const: a priority queue offers no way to move its top element out.
    Event event = std::move(const_cast<Event&>(events_.top()));
    events_.pop();
    now_ = event.at;
    ++happened_;
    is_happening_ = true;
    event.work();
    is_happening_ = false;
  }
  void resume(Thread& thread, std::uint64_t nap) {
    if (thread.nap_ == nap) turn(thread);
  }
  void turn(Thread& thread) {
    running_ = &thread;
    thread.go();
    running_ = nullptr;
    if (!thread.is_idle()) return;
    idle_.push_back(&thread);
    --alive_;
  }
  void let_others(Instant until) {
    if (is_happening_) fail("an event waits");
    bool is_over = false;
    at(until, [&is_over] { is_over = true; });
    while (!is_over) step();
  }

  const OneCpu cpu_;
  Instant now_{};
  std::uint64_t numbers_ = 0, happened_ = 0;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  bool is_happening_ = false;
  std::size_t alive_ = 0;  ///< number of threads that have not ended
  Thread* running_ = nullptr;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Thread*> idle_;
};

/// The time of a scheduler, which must outlive the clock.
class SchedulerClock final : public Clock {
 public:
  explicit SchedulerClock(Scheduler& scheduler) : scheduler_(scheduler) {}
  Instant now() const override { return scheduler_.now(); }
  void sleep_until(Instant until) override { scheduler_.sleep_until(until); }

 private:
  Scheduler& scheduler_;
};

}  // namespace harpe
