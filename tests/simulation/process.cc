#include "simulation/process.h"

#include <algorithm>
#include <utility>

namespace harpe::simulation {
namespace {

/// From handing work to a loop, or to workers, until it begins.
constexpr Seconds kSoonest{2e-6}, kLatest{5e-3};
/// Between looks of one that waits for threads.
constexpr Seconds kLook{1e-3};

}  // namespace

Process::Process(Scheduler& scheduler, std::string name, const MachineTime& machine,
                 std::uint64_t seed)
    : scheduler_(scheduler), name_(std::move(name)), machine_(machine), random_(seed, name_) {}

Instant Process::local(Instant simulated) const {
  return Instant{} + (machine_.since_boot + (simulated - Instant{}) * machine_.rate);
}

Instant Process::simulated(Instant local) const {
  // One nanosecond more than enough: who sleeps until then must see that it is then.
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
  // A sleep is where others may come in between, however short it is.
  bool slept = false;
  while (!dead_ && (!slept || stopped_ || clock_.now() < until)) {
    Scheduler::Thread* const me = scheduler_.running();
    sleeping_.push_back(me);
    scheduler_.sleep_until(simulated(until));
    std::erase(sleeping_, me);
    slept = true;
    if (stopped_ && !dead_) {  // until it goes on
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

class Process::ProcessWorkers final : public Workers {
 public:
  ProcessWorkers(Process& process, const Options& options)
      : process_(process),
        threads_(static_cast<std::size_t>(std::max(1, options.threads))),
        for_small_(static_cast<std::size_t>(options.for_small)) {}
  ~ProcessWorkers() override {
    closed_ = true;
    for (auto& [name, owner] : owners_) owner.pieces.clear();
    turns_.clear();
    wait_until([this] { return running_ == 0; });
  }

  void run(const std::string& owner, std::function<void()> work, Size size) override {
    if (closed_ || process_.dead()) return;
    Owner& one = owners_[owner];
    one.pieces.push_back({std::move(work), size});
    if (one.pieces.size() == 1 && !one.busy) turns_.push_back(owner);
    dispatch();
  }
  void finish() override {
    wait_until([this] { return owners_.empty() || (process_.dead() && running_ == 0); });
    closed_ = true;
  }
  std::size_t waiting(const std::string& owner) const override {
    const auto found = owners_.find(owner);
    return found == owners_.end() ? 0 : found->second.pieces.size();
  }

 private:
  struct Piece {
    std::function<void()> work;
    Size size;
  };
  struct Owner {
    std::deque<Piece> pieces;
    bool busy = false;
  };

  template <class Condition>
  void wait_until(const Condition& holds) {
    while (!holds()) process_.scheduler_.sleep_until(process_.scheduler_.now() + kLook);
  }
  void dispatch() {
    while (running_ < threads_ && !closed_ && !process_.dead()) {
      // The last threads take small pieces alone.
      const bool only_small = running_ + for_small_ >= threads_ && running_ > 0;
      const auto turn = std::ranges::find_if(turns_, [&](const std::string& name) {
        return !only_small || owners_.at(name).pieces.front().size == Size::kSmall;
      });
      if (turn == turns_.end()) return;
      const std::string name = std::move(*turn);
      turns_.erase(turn);
      Owner& owner = owners_.at(name);
      owner.busy = true;
      ++running_;
      process_.start_thread([this, name, work = std::move(owner.pieces.front().work)]() mutable {
        serve(name, std::move(work));
      });
      owner.pieces.pop_front();
    }
  }
  void serve(const std::string& name, std::function<void()> work) {
    process_.clock().sleep_until(process_.clock().now() +
                                 process_.random_.around(kSoonest, kLatest));
    if (!process_.dead()) work();
    work = nullptr;
    --running_;
    const auto owner = owners_.find(name);
    owner->second.busy = false;
    if (owner->second.pieces.empty()) {
      owners_.erase(owner);
    } else if (!closed_) {
      turns_.push_back(name);
    }
    dispatch();
  }

  Process& process_;
  const std::size_t threads_, for_small_;
  std::map<std::string, Owner> owners_;
  std::deque<std::string> turns_;
  std::size_t running_ = 0;
  bool closed_ = false;
};

MakeWorkers Process::make_workers() {
  return [this](const Workers::Options& options) -> std::unique_ptr<Workers> {
    return std::make_unique<ProcessWorkers>(*this, options);
  };
}

}  // namespace harpe::simulation
