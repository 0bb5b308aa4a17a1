#include "simulation/process.h"

#include <algorithm>
#include <utility>

#include "harpe/training/server/workers.h"

namespace harpe::simulation {
namespace {

/// Delay of work that is posted to a loop, or to workers.
constexpr Seconds kSoonest{2e-6}, kLatest{5e-3};
/// Interval between checks while waiting for threads.
constexpr Seconds kBetweenLooksAtThreads{1e-3};

}  // namespace

Process::Process(Scheduler& scheduler, std::string name, const MachineTime& machine,
                 std::uint64_t seed)
    : scheduler_(scheduler), name_(std::move(name)), machine_(machine), random_(seed, name_) {}

Instant Process::local(Instant simulated) const {
  return Instant{} + (machine_.since_boot + (simulated - Instant{}) * machine_.rate);
}

Instant Process::simulated(Instant local) const {
  // Rounded up by one nanosecond, so that a sleeper sees at its end that the time has come.
  return (Instant{} + ((local - Instant{}) - machine_.since_boot) / machine_.rate) + Seconds{1e-9};
}

void Process::kill() {
  dead_ = true;
  stopped_ = false;
  held_.clear();
  for (Scheduler::Thread* thread : sleeping_) scheduler_.wake(*thread);
}

void Process::go_on() {
  stopped_ = false;
  for (std::function<void()>& work : std::exchange(held_, {})) {
    deliver_at(scheduler_.now(), std::move(work));
  }
  for (Scheduler::Thread* thread : sleeping_) scheduler_.wake(*thread);
}

void Process::sleep_until(Instant until) {
  // Threads of a killed process end one after the other, and wait for each other.
  if (dead_) return scheduler_.sleep_until(scheduler_.now() + kBetweenLooksAtThreads);
  // During a sleep other threads may run, however short it is.
  bool slept = false;
  while (!dead_ && (!slept || stopped_ || clock_.now() < until)) {
    Scheduler::Thread* const me = scheduler_.running();
    sleeping_.push_back(me);
    scheduler_.sleep_until(simulated(until));
    std::erase(sleeping_, me);
    slept = true;
    if (stopped_ && !dead_) {  // until it is continued
      sleeping_.push_back(me);
      scheduler_.sleep_until(scheduler_.now() + Seconds{1e6});
      std::erase(sleeping_, me);
    }
  }
}

void Process::start_thread(std::function<void()> body) {
  scheduler_.start(std::move(body));
}

void Process::happen(std::function<void()> work) {
  if (dead_ || !is_looping_) return;
  if (stopped_) return held_.push_back(std::move(work));
  work();
}

void Process::deliver_at(Instant when, std::function<void()> work) {
  scheduler_.at(when, [this, work = std::move(work)]() mutable { happen(std::move(work)); });
}

void Process::ProcessLoop::post(std::function<void()> work) {
  const Instant soon = process_.scheduler_.now() + process_.random_.around(kSoonest, kLatest);
  last_ = std::max(last_, soon);
  process_.deliver_at(last_, std::move(work));
}

void Process::ProcessLoop::after(Seconds delay, std::function<void()> work) {
  process_.deliver_at(process_.scheduler_.now() + delay / process_.machine_.rate, std::move(work));
}

// --- Workers ------------------------------------------------------------------------------------

class Process::ProcessWorkers final : public training::Workers {
 public:
  ProcessWorkers(Process& process, const Options& options)
      : process_(process), threads_(std::max(1, options.threads)), for_small_(options.for_small) {}
  ~ProcessWorkers() override {
    closed_ = true;
    queue_.clear();
    wait_until([this] { return running_ == 0; });
  }

  void run(const std::string& owner, std::function<void()> work, Size size) override {
    if (closed_ || process_.dead()) return;
    queue_.add(owner, std::move(work), size);
    dispatch();
  }
  void finish() override {
    wait_until([this] { return queue_.empty() || (process_.dead() && running_ == 0); });
    closed_ = true;
  }
  std::size_t waiting(const std::string& owner) const override { return queue_.waiting(owner); }

 private:
  template <class Condition>
  void wait_until(const Condition& holds) {
    while (!holds())
      process_.scheduler_.sleep_until(process_.scheduler_.now() + kBetweenLooksAtThreads);
  }
  void dispatch() {
    while (running_ < threads_ && !closed_ && !process_.dead()) {
      // The last threads take only small pieces.
      const bool only_small = running_ > 0 && running_ >= threads_ - for_small_;
      if (!queue_.has(only_small)) return;
      ++running_;
      process_.start_thread([this, piece = queue_.take(only_small)]() mutable { serve(piece); });
    }
  }
  void serve(training::WorkQueue::Piece& piece) {
    process_.clock().sleep_until(process_.clock().now() +
                                 process_.random_.around(kSoonest, kLatest));
    if (!process_.dead()) piece.work();
    piece.work = nullptr;
    --running_;
    queue_.done(piece.owner);
    dispatch();
  }

  Process& process_;
  const int threads_, for_small_;
  training::WorkQueue queue_;
  int running_ = 0;
  bool closed_ = false;
};

training::MakeWorkers Process::make_workers() {
  return [this](const training::Workers::Options& options) -> std::unique_ptr<training::Workers> {
    return std::make_unique<ProcessWorkers>(*this, options);
  };
}

}  // namespace harpe::simulation
