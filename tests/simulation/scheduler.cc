#include "simulation/scheduler.h"

#include <utility>

#include "simulation/require.h"

namespace harpe::simulation {

class Scheduler::Thread {
 public:
  Thread() : thread_([this] { run(); }) {}
  ~Thread() {
    body_ = nullptr;
    go_.release();
    thread_.join();
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void give(std::function<void()> body) { body_ = std::move(body); }
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

  std::uint64_t nap = 0;  ///< counts its sleeps: a timer of one before wakes it no more

 private:
  void run() {
    for (;;) {
      go_.acquire();
      if (body_ == nullptr) return;
      body_();
      body_ = nullptr;
      ++nap;
      back_.release();
    }
  }

  std::function<void()> body_;
  std::binary_semaphore go_{0}, back_{0};
  std::thread thread_;  // last: it uses what is before
};

Scheduler::Scheduler() = default;

Scheduler::~Scheduler() {
  for (const auto& thread : threads_)
    require(thread->is_idle(), "a thread outlives the simulation");
}

void Scheduler::at(Instant when, std::function<void()> event) {
  events_.push({std::max(when, now_), numbers_++, std::move(event)});
}

void Scheduler::start(std::function<void()> body) {
  at(now_, [this, body = std::move(body)]() mutable {
    if (idle_.empty()) idle_.push_back(threads_.emplace_back(std::make_unique<Thread>()).get());
    Thread& thread = *idle_.back();
    idle_.pop_back();
    thread.give(std::move(body));
    turn(thread);
  });
}

void Scheduler::turn(Thread& thread) {
  require(running_ == nullptr, "two threads run at once");
  running_ = &thread;
  thread.go();
  running_ = nullptr;
  if (thread.is_idle()) idle_.push_back(&thread);
}

void Scheduler::resume(Thread& thread, std::uint64_t nap) {
  if (thread.nap == nap) turn(thread);
}

void Scheduler::sleep_until(Instant until) {
  require(running_ != nullptr, "an event must not wait: it would hold up the loop of a process");
  Thread& thread = *running_;
  at(until, [this, &thread, nap = ++thread.nap] { resume(thread, nap); });
  thread.rest();
}

void Scheduler::wake(Thread& thread) {
  at(now_, [this, &thread, nap = thread.nap] { resume(thread, nap); });
}

void Scheduler::run_until(Instant end) {
  while (!events_.empty() && events_.top().at <= end) {
    // The queue gives no way to take what is moved out of it.
    Event event = std::move(const_cast<Event&>(events_.top()));
    events_.pop();
    now_ = event.at;
    ++happened_;
    event.work();
  }
  now_ = std::max(now_, end);
}

}  // namespace harpe::simulation
