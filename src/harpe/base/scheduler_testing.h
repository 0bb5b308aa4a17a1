#pragma once
/// \file
/// Simulated time: everything that happens, happens here, one thing after another, in an order that
/// depends on nothing but what is done.
///
/// Things are events, which are done at once, or threads: code that waits in the middle of what it
/// does, as for a database. Such a thread is one of the system, for the sake of its stack, but runs
/// only while the scheduler waits for it, and gives the turn back when it sleeps. So there is never
/// more than one at work, nothing is interrupted but where it sleeps, and nothing needs a lock.
///
/// The thread that makes a scheduler may sleep by it, too: meanwhile the others have their turns.

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

/// While it is there, this thread, and those it starts, stay on one CPU. Threads of which one waits
/// for the other lose half of their time, and beside other work nine tenths, where the next one has
/// to be woken on another CPU.
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
    /// Lets it run until it sleeps or is through.
    void go() {
      go_.release();
      back_.acquire();
    }
    /// Of the thread itself.
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
    std::uint64_t nap_ = 0;  ///< counts its sleeps: a timer of one before wakes it no more
    std::binary_semaphore go_{0}, back_{0};
    std::thread thread_;  // last: it uses what is before
  };

  Scheduler() = default;
  /// Goes on until all threads have ended.
  ~Scheduler() {
    for (int i = 0; i < kLongestEnd && !is_idle(); ++i) run_until(now_ + Seconds{1});
    if (!is_idle()) fail("a thread does not end");
  }
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Since the scheduler was made, alike for all.
  Instant now() const { return now_; }
  /// Those of one moment happen in the order in which they were given.
  void at(Instant when, std::function<void()> event) {
    events_.push({std::max(when, now_), numbers_++, std::move(event)});
  }
  void after(Seconds delay, std::function<void()> event) { at(now_ + delay, std::move(event)); }
  /// Has `body` run as a thread, from this moment on, after what is due now.
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

  /// Lets happen what does until then.
  void run_until(Instant end) {
    while (!events_.empty() && events_.top().at <= end) step();
    now_ = std::max(now_, end);
  }
  std::uint64_t events() const { return happened_; }
  /// Whether all threads have ended.
  bool is_idle() const { return alive_ == 0; }

  /// The thread that runs; null: an event, or the one that made this.
  Thread* running() const { return running_; }
  /// Returns at that time, or when it is woken before. An event must not wait: it would hold up the
  /// loop of a process.
  void sleep_until(Instant until) {
    if (running_ == nullptr) return let_others(until);
    Thread& thread = *running_;
    at(until, [this, &thread, nap = ++thread.nap_] { resume(thread, nap); });
    thread.rest();
  }
  /// Has a thread that sleeps return from that now, after what is due now.
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
    // The queue gives no way to take what is moved out of it.
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
  std::size_t alive_ = 0;  ///< threads
  Thread* running_ = nullptr;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Thread*> idle_;
};

/// The time of a scheduler. It outlives this.
class SchedulerClock final : public Clock {
 public:
  explicit SchedulerClock(Scheduler& scheduler) : scheduler_(scheduler) {}
  Instant now() const override { return scheduler_.now(); }
  void sleep_until(Instant until) override { scheduler_.sleep_until(until); }

 private:
  Scheduler& scheduler_;
};

}  // namespace harpe
