#include "harpe/device/measure/energy_monitor.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <deque>
#include <map>
#include <random>
#include <thread>
#include <utility>

#include "harpe/base/mutex.h"
#include "harpe/base/text.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/device/measure/channel.h"

namespace harpe {
namespace {

constexpr int kSamplesPerLook = 5;  // least time after a look, in durations of the look
constexpr double kSpread = 0.25;    // random spread of sampling times, as a share of the interval

/// One GPU and the thread that reads it.
struct Reader {
  Reader(Gpu& gpu, const MonitorOptions& options, std::uint64_t seed)
      : channel(gpu, options), random(seed) {}

  device::GpuChannel channel;
  std::mt19937_64 random;  ///< used only by its thread
  // The monitor's mutex guards the following members.
  std::uint64_t asked = 0, answered = 0;  ///< numbers of readings for edges of windows
  std::uint64_t rounds = 0;
  bool reading = false, ended = false;
  std::chrono::steady_clock::time_point since{};  ///< when the reading began, if `reading`
  std::thread thread;
};

class Monitor final : public EnergyMonitor {
 public:
  Monitor(std::span<Gpu* const> gpus, std::span<Cpu* const> cpus, MonitorOptions options,
          Clock& clock)
      : options_(std::move(options)), clock_(&clock) {
    std::vector<std::string> seen;
    for (Gpu* gpu : gpus) {
      const std::string& uuid = gpu->identity().uuid;
      if (!uuid.empty() && std::ranges::find(seen, uuid) != seen.end()) continue;
      seen.push_back(uuid);
      readers_.emplace_back(*gpu, options_, options_.seed + readers_.size());
    }
    for (Cpu* cpu : cpus) cpus_.emplace_back(*cpu, options_);
    for (device::CpuChannel& cpu : cpus_) cpu.read(clock);
    if (!options_.sampling_threads) return;
    for (std::size_t i = 0; i < readers_.size(); ++i) {
      readers_[i].thread = std::thread([this, i] { read_gpu(i); });
    }
    if (!cpus_.empty()) cpu_thread_ = std::thread([this] { read_cpus(); });
  }

  ~Monitor() override {
    ask_to_stop();
    for (Reader& reader : readers_) {
      if (reader.thread.joinable()) reader.thread.join();
    }
    if (cpu_thread_.joinable()) cpu_thread_.join();
  }
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  bool stop(Seconds longest) override {
    ask_to_stop();
    MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, duration(longest), [&] {
      return !options_.sampling_threads || std::ranges::all_of(readers_, &Reader::ended);
    });
  }

  Status begin(const std::string& name, bool restart, std::optional<Instant> at) override {
    const Instant now = at.value_or(clock_->now());
    std::uint64_t replaced = 0, id = 0;
    {
      const MutexLock lock(mutex_);
      const auto found = windows_.find(name);
      if (found != windows_.end()) {
        if (!restart || !found->second.ready) {
          return Error::of(ErrorCode::kConflict,
                           "window " + in_quotes(name) +
                               " is already open; end or cancel it first, or restart it");
        }
        replaced = found->second.id;
      }
      id = ++last_id_;
      windows_[name] = {.id = id, .started_at = time_of_day_at(now, *clock_)};
    }
    if (replaced != 0) drop(replaced);
    for (Reader& reader : readers_) reader.channel.open(id, now);
    for (device::CpuChannel& cpu : cpus_) {
      const MutexLock lock(cpu.mutex);
      cpu.open(id, now);
      cpu.read(*clock_);
    }
    (void)read_edges();
    const MutexLock lock(mutex_);
    windows_[name].begin = now;
    windows_[name].ready = true;
    return ok_status();
  }

  Result<WindowEnergy> end(const std::string& name, std::optional<Instant> at) override {
    return respond(name, true, at);
  }
  Result<WindowEnergy> so_far(const std::string& name) override { return respond(name, false, {}); }

  bool settled(Instant at) const override {
    return std::ranges::all_of(readers_,
                               [at](const Reader& reader) { return reader.channel.settled(at); });
  }

  Status cancel(const std::string& name) override {
    const auto window = HARPE_TRY(take(name, true));
    drop(window.id);
    return ok_status();
  }

  Result<std::vector<EnergyEstimate>> past(std::size_t position,
                                           std::span<const TimeSpan> spans) override {
    if (position >= readers_.size()) return no_gpu(position);
    std::vector<EnergyEstimate> responses;
    responses.reserve(spans.size());
    for (const TimeSpan& span : spans) {
      responses.push_back(readers_[position].channel.between(span));
    }
    return responses;
  }

  Result<std::vector<CounterEdge>> counter_edges(std::size_t position,
                                                 Instant since) const override {
    if (position >= readers_.size()) return no_gpu(position);
    return readers_[position].channel.edges(since);
  }

  std::vector<GpuIdentity> gpus() const override {
    std::vector<GpuIdentity> result;
    for (const Reader& reader : readers_) result.push_back(reader.channel.identity());
    return result;
  }

  void use_gpu(std::size_t position, const std::function<void(Gpu&)>& use) override {
    readers_.at(position).channel.use(use);
  }

  void poll() override {
    for (Reader& reader : readers_) reader.channel.read(*clock_, false);
    poll_cpus(options_.cpu_interval);
    const MutexLock lock(mutex_);
    for (Reader& reader : readers_) reader.rounds += 1;
  }

  Seconds sampling_cpu_time() const override {
    Seconds sum = cpu_time_of(cpu_thread_);
    for (const Reader& reader : readers_) sum += cpu_time_of(reader.thread);
    return sum;
  }

  std::uint64_t rounds() const override {
    const MutexLock lock(mutex_);
    std::uint64_t sum = 0;
    for (const Reader& reader : readers_) sum += reader.rounds;
    return readers_.empty() ? 0 : sum / readers_.size();
  }

 private:
  using Time = std::chrono::steady_clock;

  struct Window {
    std::uint64_t id = 0;
    double started_at = 0;
    Instant begin{};
    bool ready = false;  ///< true if opened on all devices
  };

  static Time::duration duration(Seconds time) {
    return std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(time.value));
  }

  static Error no_gpu(std::size_t position) {
    return Error::of(ErrorCode::kNotFound, "the monitor has no GPU " + std::to_string(position));
  }

  static Seconds cpu_time_of(const std::thread& of) {
    clockid_t clock{};
    timespec time{};
    auto& thread = const_cast<std::thread&>(of);  // NOLINT(*-const-cast): only its handle
    if (!of.joinable() || pthread_getcpuclockid(thread.native_handle(), &clock) != 0) return {0};
    clock_gettime(clock, &time);
    return {static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9};
  }

  void ask_to_stop() {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }

  void poll_cpus(Seconds interval) {
    for (device::CpuChannel& cpu : cpus_) {
      const MutexLock lock(cpu.mutex);
      if (cpu.due(clock_->now(), interval)) cpu.read(*clock_);
    }
  }

  Result<Window> take(const std::string& name, bool remove) {
    const MutexLock lock(mutex_);
    const auto found = windows_.find(name);
    if (found == windows_.end() || !found->second.ready) {
      std::vector<std::string> known;
      for (const auto& [other, window] : windows_) known.push_back(other);
      std::string message = "no window " + in_quotes(name) + " is open";
      if (const auto near = nearest(name, known)) message += "; did you mean '" + *near + "'?";
      return Error::of(ErrorCode::kNotFound, message);
    }
    const Window window = found->second;
    if (remove) windows_.erase(found);
    return window;
  }

  void drop(std::uint64_t id) {
    for (Reader& reader : readers_) reader.channel.drop(id);
    for (device::CpuChannel& cpu : cpus_) {
      const MutexLock lock(cpu.mutex);
      cpu.drop(id);
    }
  }

  /// Requests one more reading of every GPU and waits at most the patience. Returns for each GPU
  /// without a reading the time since its driver was called.
  std::vector<std::optional<Seconds>> read_edges() {
    std::vector<std::optional<Seconds>> unanswered(readers_.size());
    if (!options_.sampling_threads) {
      for (Reader& reader : readers_) reader.channel.read(*clock_, true);
      return unanswered;
    }
    std::vector<std::uint64_t> tickets;
    MutexLock lock(mutex_);
    for (Reader& reader : readers_) tickets.push_back(++reader.asked);
    changed_.notify_all();
    const auto until = Time::now() + duration(options_.patience);
    for (std::size_t i = 0; i < readers_.size(); ++i) {
      const Reader& reader = readers_[i];
      const auto done = [&] { return reader.answered >= tickets[i] || reader.ended; };
      if (changed_.wait_until(mutex_, until, done)) continue;
      const Time::duration time = reader.reading ? Time::now() - reader.since : Time::duration{0};
      unanswered[i] = Seconds{std::chrono::duration<double>(time).count()};
    }
    return unanswered;
  }

  Result<WindowEnergy> respond(const std::string& name, bool ends, std::optional<Instant> at) {
    const Instant now = at.value_or(clock_->now());
    const Window window = HARPE_TRY(take(name, ends));
    const std::vector<std::optional<Seconds>> unanswered = read_edges();
    const device::WindowEnd kind = ends ? device::WindowEnd::kOfWork : device::WindowEnd::kLook;
    WindowEnergy result{.name = name,
                        .started_at = window.started_at,
                        .begin = window.begin,
                        .end = now,
                        .time = now - window.begin,
                        .devices = {}};
    for (std::size_t i = 0; i < readers_.size(); ++i) {
      result.devices.push_back(readers_[i].channel.respond(window.id, now, kind, unanswered[i]));
    }
    for (device::CpuChannel& cpu : cpus_) {
      const MutexLock lock(cpu.mutex);
      cpu.read(*clock_);
      cpu.respond(window.id, now, kind, result.devices);
    }
    if (ends) drop(window.id);
    return result;
  }

  /// Runs on the thread of one GPU.
  void read_gpu(std::size_t position) {
    Reader& reader = readers_[position];
    std::uniform_real_distribution<double> spread(1 - kSpread, 1 + kSpread);
    auto next = Time::now();
    auto next_look = next;
    MutexLock lock(mutex_);
    while (true) {
      const auto asked = [&]() HARPE_REQUIRES(mutex_) {
        return stopping_ || reader.asked > reader.answered;
      };
      if (windows_.empty()) {
        changed_.wait(mutex_,
                      [&]() HARPE_REQUIRES(mutex_) { return asked() || !windows_.empty(); });
        next = Time::now();
      } else {
        changed_.wait_until(mutex_, next, asked);
      }
      if (stopping_) break;
      const std::uint64_t ticket = reader.asked;
      const bool edge = ticket > reader.answered;
      reader.reading = true;
      reader.since = Time::now();
      lock.unlock();
      reader.channel.read(*clock_, edge);
      lock.lock();
      reader.answered = ticket;
      reader.rounds += 1;
      if (edge) changed_.notify_all();
      if (options_.look && Time::now() >= next_look) {
        reader.since = Time::now();
        lock.unlock();
        reader.channel.use([&](Gpu& gpu) { options_.look(position, gpu); });
        lock.lock();
        // With a slow driver, looks must leave time for samples.
        const auto took = Time::now() - reader.since;
        next_look =
            Time::now() + std::max(duration(options_.look_interval), kSamplesPerLook * took);
      }
      reader.reading = false;
      if (edge && Time::now() < next) continue;
      // Random times: a load that repeats at the sampling rate is not always sampled at the same
      // phase, and readings are not in phase with the counters.
      next += duration({spread(reader.random) / options_.rate});
      next = std::max(next, Time::now());
    }
    reader.ended = true;
    changed_.notify_all();
  }

  /// Runs on the thread of all CPUs. Counters of the kernel are never slow.
  void read_cpus() {
    MutexLock lock(mutex_);
    while (!stopping_) {
      const Seconds interval =
          windows_.empty() ? options_.idle_cpu_interval : options_.cpu_interval;
      const bool idle = windows_.empty();
      changed_.wait_for(mutex_, duration(interval), [&]() HARPE_REQUIRES(mutex_) {
        return stopping_ || windows_.empty() != idle;
      });
      if (stopping_) return;
      const Seconds now = windows_.empty() ? options_.idle_cpu_interval : options_.cpu_interval;
      lock.unlock();
      poll_cpus(now);
      lock.lock();
    }
  }

  const MonitorOptions options_;
  Clock* clock_;
  std::deque<Reader> readers_;
  std::deque<device::CpuChannel> cpus_;

  mutable Mutex mutex_;  ///< guards what follows; never held while a device is read
  CondVar changed_;
  std::map<std::string, Window> windows_ HARPE_GUARDED_BY(mutex_);
  std::uint64_t last_id_ HARPE_GUARDED_BY(mutex_) = 0;
  bool stopping_ HARPE_GUARDED_BY(mutex_) = false;
  std::thread cpu_thread_;
};

}  // namespace

Result<std::unique_ptr<EnergyMonitor>> EnergyMonitor::start(std::span<Gpu* const> gpus,
                                                            std::span<Cpu* const> cpus,
                                                            MonitorOptions options, Clock& clock) {
  if (!(options.rate >= 0.1 && options.rate <= 1000)) {
    return Error::invalid("the sampling rate is " + shortest(options.rate) +
                          " Hz; it must be between 0.1 and 1000");
  }
  return std::unique_ptr<EnergyMonitor>(
      std::make_unique<Monitor>(gpus, cpus, std::move(options), clock));
}

Result<WindowEnergy> end_settled(EnergyMonitor& monitor, const std::string& name, Seconds longest,
                                 Clock& clock) {
  constexpr Seconds kBetweenLooks{0.01};
  const Instant at = clock.now();
  while (!monitor.settled(at) && clock.now() < at + longest)
    clock.sleep_until(clock.now() + kBetweenLooks);
  return monitor.end(name, at);
}

std::string DeviceEnergy::label() const {
  const char* word = kind == Kind::kGpu ? "GPU " : kind == Kind::kCpu ? "CPU " : "DRAM ";
  return word + std::to_string(index);
}

EnergyEstimate WindowEnergy::total() const {
  EnergyEstimate sum;
  sum.time = time;
  double square = 0;
  const bool has_module =
      std::ranges::any_of(devices, [](const DeviceEnergy& device) { return device.whole_module; });
  for (const DeviceEnergy& device : devices) {
    if (device.energy.source == EnergySource::kNone) {
      if (device.error) sum.missing = time;
      continue;
    }
    if (has_module && device.kind != DeviceEnergy::Kind::kGpu) continue;
    sum.energy += device.energy.energy;
    sum.sensor_error += device.energy.sensor_error;  // sensors of one make share their error
    square += device.energy.error.value * device.energy.error.value;
    sum.unobserved = std::max(sum.unobserved, device.energy.unobserved);
    sum.missing = std::max(sum.missing, device.energy.missing);
    sum.restarts += device.energy.restarts;
    sum.source = std::max(sum.source, device.energy.source);
  }
  sum.error = {std::sqrt(square)};
  return sum;
}

Joules WindowEnergy::sum(DeviceEnergy::Kind kind) const {
  Joules result{0};
  for (const DeviceEnergy& device : devices) {
    if (device.kind == kind) result += device.energy.energy;
  }
  return result;
}

bool WindowEnergy::complete() const {
  return std::ranges::none_of(devices,
                              [](const DeviceEnergy& device) { return device.error.has_value(); });
}

EnergyEstimate total_of(const WindowEnergy& window) {
  EnergyEstimate total = window.total();
  const bool all_known = std::ranges::all_of(window.devices, [](const DeviceEnergy& device) {
    return device.energy.source == EnergySource::kNone || error_known(device.energy);
  });
  if (!all_known) total.error = {0};
  return total;
}

bool error_known(const EnergyEstimate& energy) {
  return energy.source != EnergySource::kNone && energy.error.value > 0 &&
         energy.missing.value <= 0;
}

}  // namespace harpe
