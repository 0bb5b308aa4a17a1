#pragma once
/// \file
/// Simulated time: everything that happens, happens here, one thing after another, in an order that
/// a seed decides.
///
/// Things are events, which are done at once, or threads: code that waits in the middle of what it
/// does, as for a database. Such a thread is one of the system, for the sake of its stack, but runs
/// only while the scheduler waits for it, and gives the turn back when it sleeps. So there is never
/// more than one at work, nothing is interrupted but where it sleeps, and nothing needs a lock.

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <semaphore>
#include <thread>
#include <vector>

#include "harpe/base/clock.h"

namespace harpe::simulation {

class Scheduler {
 public:
  class Thread;

  Scheduler();
  /// All threads must have ended.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Since the start of the simulation, alike for all.
  Instant now() const { return now_; }
  /// Those of one moment happen in the order in which they were given.
  void at(Instant when, std::function<void()> event);
  void after(Seconds delay, std::function<void()> event) { at(now_ + delay, std::move(event)); }
  /// Has `body` run as a thread, from this moment on, after what is due now.
  void start(std::function<void()> body);

  /// Happens until then, or until nothing is left.
  void run_until(Instant end);
  std::uint64_t events() const { return happened_; }

  // Of the thread that runs now.
  /// The thread that runs; null: an event does.
  Thread* running() const { return running_; }
  /// Returns at that time, or when it is woken before.
  void sleep_until(Instant until);
  /// Has a thread that sleeps return from that now, after what is due now.
  void wake(Thread& thread);

 private:
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
  void resume(Thread& thread, std::uint64_t nap);
  void turn(Thread& thread);

  Instant now_{};
  std::uint64_t numbers_ = 0, happened_ = 0;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  Thread* running_ = nullptr;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Thread*> idle_;
};

}  // namespace harpe::simulation
