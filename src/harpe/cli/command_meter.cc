#include "harpe/cli/command_meter.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace harpe {
namespace {

// What is read before a command: five steps of usual counters.
constexpr Seconds kLead{0.5};
// Sound devices settle within a second or so; those that are slow get longer.
constexpr Seconds kLongestSettling{5}, kLongestStop{0.2};
constexpr std::chrono::milliseconds kPause(10);

}  // namespace

struct CommandMeter::State {
  State(std::vector<Gpu*> all_gpus, std::vector<Cpu*> all_cpus, Clock& time, std::string window)
      : gpus(std::move(all_gpus)),
        cpus(std::move(all_cpus)),
        clock(time),
        name(std::move(window)) {}

  /// The thread: everything that may wait for a driver.
  void run() {
    auto monitor = EnergyMonitor::start(gpus, cpus, {}, clock);
    if (!monitor.ok()) return answer(monitor.error());
    measure(**monitor);
    if ((*monitor)->stop(kLongestStop)) return;
    (void)monitor->release();  // its thread cannot be ended
    const std::lock_guard lock(mutex);
    hangs = true;
  }

  void measure(EnergyMonitor& monitor) {
    const Instant start = clock.now();
    const std::string early = name + " (before)";
    (void)monitor.begin(early);  // its name is its own: sampling begins
    Result<WindowEnergy> first = monitor.so_far(early);
    std::unique_lock lock(mutex);
    if (first.ok() && !begun) before = *std::move(first);
    if (!gpus.empty()) wait_until(lock, start + kLead, [&] { return begun || ended; });
    ready = true;
    changed.notify_all();
    changed.wait(lock, [&] { return begun || ended; });
    if (!begun) return;
    lock.unlock();
    const Status status = monitor.begin(name, false, begun);
    (void)monitor.cancel(early);
    lock.lock();
    changed.wait(lock, [&] { return ended.has_value(); });
    while (!monitor.settled(*ended) && clock.now() < *ended + kLongestSettling) {
      changed.wait_for(lock, kPause);
    }
    lock.unlock();
    answer(status.ok() ? monitor.end(name, ended) : status.error());
  }

  template <class Condition>
  void wait_until(std::unique_lock<std::mutex>& lock, Instant until, Condition condition) {
    changed.wait_for(lock, std::chrono::duration<double>((until - clock.now()).value), condition);
  }

  void answer(Result<WindowEnergy> result) {
    const std::lock_guard lock(mutex);
    used = std::move(result);
    ready = true;
    changed.notify_all();
  }

  void set(std::optional<Instant>& moment) {
    const std::lock_guard lock(mutex);
    moment = clock.now();
    changed.notify_all();
  }

  const std::vector<Gpu*> gpus;
  const std::vector<Cpu*> cpus;
  Clock& clock;
  const std::string name;
  std::mutex mutex;
  std::condition_variable changed;
  bool ready = false, hangs = false;
  std::optional<Instant> begun, ended;
  std::optional<WindowEnergy> before;
  std::optional<Result<WindowEnergy>> used;
  std::thread thread;
};

CommandMeter::CommandMeter(std::vector<Gpu*> gpus, std::vector<Cpu*> cpus, Clock& clock,
                           std::string name)
    : state_(std::make_unique<State>(std::move(gpus), std::move(cpus), clock, std::move(name))) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

CommandMeter::~CommandMeter() {
  if (!state_->ended) state_->set(state_->ended);
  if (state_->thread.joinable()) state_->thread.join();
}

void CommandMeter::prepare(Seconds longest) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, std::chrono::duration<double>(longest.value),
                           [&] { return state_->ready; });
}

void CommandMeter::begin() {
  state_->set(state_->begun);
}

void CommandMeter::end() {
  state_->set(state_->ended);
}

std::optional<Result<WindowEnergy>> CommandMeter::used(Seconds longest,
                                                       const std::function<bool()>& give_up) {
  constexpr std::chrono::milliseconds kAsk(50);
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(longest.value);
  std::unique_lock lock(state_->mutex);
  while (!state_->changed.wait_for(lock, kAsk, [&] { return state_->used.has_value(); })) {
    if (give_up() || std::chrono::steady_clock::now() > until) return std::nullopt;
  }
  return state_->used;
}

bool CommandMeter::hangs() const {
  state_->thread.join();
  return state_->hangs;
}

const std::optional<WindowEnergy>& CommandMeter::before() const {
  return state_->before;
}

}  // namespace harpe
