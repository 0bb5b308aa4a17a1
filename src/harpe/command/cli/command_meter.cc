#include "harpe/command/cli/command_meter.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "harpe/base/mutex.h"
#include "harpe/command/cli/measure_output.h"
#include "harpe/device/hw/system_clock.h"

namespace harpe::command {

namespace {

/// Number of GPUs held, and of those the number with known energy, by share of the time.
struct HeldDevices {
  double all = 0, measured = 0;
};

HeldDevices held_devices(const WindowEnergy& window) {
  HeldDevices held;
  for (const DeviceEnergy& device : window.devices) {
    if (device.kind != DeviceEnergy::Kind::kGpu) continue;
    held.all += 1;
    const bool none = device.energy.source == EnergySource::kNone;
    const double missing = window.time.value > 0 ? device.energy.missing / window.time : 0;
    held.measured += none ? 0 : 1 - std::clamp(missing, 0.0, 1.0);
  }
  return held;
}

}  // namespace

EnergySoFar energy_so_far(const WindowEnergy& window) {
  const EnergyEstimate total = total_of(window);
  const Joules gpus = window.sum(DeviceEnergy::Kind::kGpu);
  return {.after = window.time,
          .energy = total.energy,
          .host = {std::max(0.0, (total.energy - gpus).value)}};
}

double next_boundary(double time, carbon::WholeSeconds step) {
  const auto seconds = static_cast<double>(step.count());
  return (std::floor(time / seconds) + 1) * seconds;
}

carbon::EnergyLedger command_ledger(const std::vector<EnergySoFar>& readings,
                                    const WindowEnergy& whole, carbon::WholeSeconds step) {
  carbon::EnergyLedger ledger(step);
  const EnergyEstimate total = total_of(whole);
  const HeldDevices held = held_devices(whole);
  std::vector<EnergySoFar> marks = readings;
  marks.push_back(energy_so_far(whole));
  // From the end: no reading may exceed a later one.
  for (std::size_t i = marks.size() - 1; i-- > 0;) {
    marks[i].after = std::min(marks[i].after, marks[i + 1].after);
    marks[i].energy = std::min(marks[i].energy, marks[i + 1].energy);
    marks[i].host = std::min(marks[i].host, marks[i + 1].host);
  }
  const double share_of_square = total.error.value * total.error.value;
  EnergySoFar before;
  for (const EnergySoFar& mark : marks) {
    carbon::EnergyUse use{.energy = mark.energy - before.energy, .host = mark.host - before.host};
    const Seconds time = mark.after - before.after;
    const double share = total.energy.value > 0 ? use.energy / total.energy : 0;
    use.host = std::min(use.host, use.energy);
    if (error_known(total)) use.variance = share * share_of_square;
    if (!error_known(total)) use.without_error = use.energy;
    use.sensor_error = share * total.sensor_error;
    use.device_time = held.all * time;
    use.measured = held.measured * time;
    // Fails only if the system's clock is before 1970. The window's own figures hold the energy.
    (void)ledger.add(whole.started_at + before.after.value, whole.started_at + mark.after.value,
                     use);
    before = mark;
  }
  return ledger;
}

namespace {

// Time of readings before a command: five steps of usual counters.
constexpr Seconds kLead{0.5};
// Sound devices settle within about a second; slow devices get longer.
constexpr Seconds kLongestSettling{5}, kLongestStop{0.2};
constexpr std::chrono::milliseconds kPause(10);

}  // namespace

struct CommandMeter::State {
  State(std::vector<Gpu*> all_gpus, std::vector<Cpu*> all_cpus, Clock& time, std::string window,
        carbon::WholeSeconds grid)
      : gpus(std::move(all_gpus)),
        cpus(std::move(all_cpus)),
        clock(time),
        name(std::move(window)),
        step(grid) {}

  /// Runs on the thread: all calls that may wait for a driver.
  void run() {
    auto monitor = EnergyMonitor::start(gpus, cpus, {}, clock);
    if (!monitor.ok()) return publish(monitor.error());
    measure(**monitor);
    if ((*monitor)->stop(kLongestStop)) return;
    (void)monitor->release();  // its thread cannot be stopped
    const MutexLock lock(mutex);
    hangs = true;
  }

  void measure(EnergyMonitor& monitor) {
    const Instant start = clock.now();
    const std::string early = name + " (before)";
    (void)monitor.begin(early);  // starts sampling; cannot fail: the name is new
    Result<WindowEnergy> first = monitor.so_far(early);
    MutexLock lock(mutex);
    if (first.ok() && !begun) {
      before = *std::move(first);
      answering = &monitor;
    }
    if (!gpus.empty())
      wait_until(start + kLead, [this]() HARPE_REQUIRES(mutex) { return begun || ended; });
    ready = true;
    changed.notify_all();
    changed.wait(mutex, [this]() HARPE_REQUIRES(mutex) { return begun || ended; });
    if (!begun) return;
    const Instant from = *begun;
    lock.unlock();
    const Status status = monitor.begin(name, false, from);
    (void)monitor.cancel(early);
    lock.lock();
    while (!ended) {
      wait_until(next_step(from), [this]() HARPE_REQUIRES(mutex) { return ended.has_value(); });
      if (ended) break;
      lock.unlock();
      const Result<WindowEnergy> so_far = monitor.so_far(name);
      lock.lock();
      if (so_far.ok()) steps.push_back(energy_so_far(*so_far));
    }
    const Instant until = *ended;
    while (!monitor.settled(until) && clock.now() < until + kLongestSettling) {
      changed.wait_for(mutex, kPause, [] { return false; });
    }
    lock.unlock();
    publish(status.ok() ? monitor.end(name, until) : status.error());
  }

  /// Returns the begin of the next interval of UTC, by the wall clock at the command's begin.
  Instant next_step(Instant from) {
    if (!wall_of_zero) wall_of_zero = time_of_day_at(from, clock);
    const double now = *wall_of_zero + (clock.now() - from).value;
    return from + Seconds{next_boundary(now, step) - *wall_of_zero};
  }

  template <class Condition>
  void wait_until(Instant until, Condition condition) HARPE_REQUIRES(mutex) {
    changed.wait_for(mutex, std::chrono::duration<double>((until - clock.now()).value), condition);
  }

  bool has_ended() {
    const MutexLock lock(mutex);
    return ended.has_value();
  }

  void publish(Result<WindowEnergy> result) {
    const MutexLock lock(mutex);
    used = std::move(result);
    ready = true;
    changed.notify_all();
  }

  void set(std::optional<Instant> State::* moment, std::optional<Instant> at = {}) {
    const MutexLock lock(mutex);
    this->*moment = at ? *at : clock.now();
    changed.notify_all();
  }

  const std::vector<Gpu*> gpus;
  const std::vector<Cpu*> cpus;
  Clock& clock;
  const std::string name;
  const carbon::WholeSeconds step;
  std::optional<double> wall_of_zero;  ///< seconds since 1970 at the begin; used by the thread only
  Mutex mutex;
  CondVar changed;
  bool ready HARPE_GUARDED_BY(mutex) = false, hangs HARPE_GUARDED_BY(mutex) = false;
  std::optional<Instant> begun HARPE_GUARDED_BY(mutex), ended HARPE_GUARDED_BY(mutex);
  std::optional<WindowEnergy> before HARPE_GUARDED_BY(mutex);
  EnergyMonitor* answering HARPE_GUARDED_BY(mutex) = nullptr;
  std::optional<Result<WindowEnergy>> used HARPE_GUARDED_BY(mutex);
  std::vector<EnergySoFar> steps HARPE_GUARDED_BY(mutex);
  std::thread thread;
};

CommandMeter::CommandMeter(std::vector<Gpu*> gpus, std::vector<Cpu*> cpus, Clock& clock,
                           std::string name, carbon::WholeSeconds step)
    : state_(
          std::make_unique<State>(std::move(gpus), std::move(cpus), clock, std::move(name), step)) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

CommandMeter::~CommandMeter() {
  (void)stop();
}

void CommandMeter::prepare(Seconds longest) {
  MutexLock lock(state_->mutex);
  state_->changed.wait_for(state_->mutex, std::chrono::duration<double>(longest.value),
                           [this]() HARPE_REQUIRES(state_->mutex) { return state_->ready; });
}

void CommandMeter::begin() {
  state_->set(&State::begun);
}

void CommandMeter::end(std::optional<Instant> at) {
  state_->set(&State::ended, at);
}

EnergyMonitor* CommandMeter::monitor() const {
  const MutexLock lock(state_->mutex);
  return state_->answering;
}

std::optional<Result<WindowEnergy>> CommandMeter::used(Seconds longest,
                                                       const std::function<bool()>& give_up) {
  constexpr std::chrono::milliseconds kAsk(50);
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(longest.value);
  MutexLock lock(state_->mutex);
  while (!state_->changed.wait_for(state_->mutex, kAsk, [this]() HARPE_REQUIRES(state_->mutex) {
    return state_->used.has_value();
  })) {
    if (give_up() || std::chrono::steady_clock::now() > until) return std::nullopt;
  }
  return state_->used;
}

std::vector<EnergySoFar> CommandMeter::readings() const {
  const MutexLock lock(state_->mutex);
  return state_->steps;
}

bool CommandMeter::stop() {
  if (!state_->has_ended()) state_->set(&State::ended);
  if (state_->thread.joinable()) state_->thread.join();
  const MutexLock lock(state_->mutex);
  return !state_->hangs;
}

std::optional<WindowEnergy> CommandMeter::before() const {
  const MutexLock lock(state_->mutex);
  return state_->before;
}

}  // namespace harpe::command
