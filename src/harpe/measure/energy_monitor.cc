#include "harpe/measure/energy_monitor.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/measure/channel.h"

namespace harpe {
namespace {

constexpr double kSpread = 0.25;  // of the moments of sampling, as a share of the interval

double wall_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

class Monitor final : public EnergyMonitor {
 public:
  Monitor(std::span<Gpu* const> gpus, std::span<Cpu* const> cpus, MonitorOptions options,
          Clock& clock)
      : options_(std::move(options)), clock_(&clock), random_(options_.seed) {
    std::vector<std::string> seen;
    for (Gpu* gpu : gpus) {
      const std::string& uuid = gpu->identity().uuid;
      if (!uuid.empty() && std::ranges::find(seen, uuid) != seen.end()) continue;
      seen.push_back(uuid);
      gpus_.emplace_back(*gpu, options_);
    }
    for (Cpu* cpu : cpus) cpus_.emplace_back(*cpu, options_);
    for (CpuChannel& cpu : cpus_) cpu.read(clock);
    if (options_.sampling_thread) {
      thread_ = std::thread([this] { run(); });
    }
  }

  ~Monitor() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  Status begin(const std::string& name, bool restart, std::optional<Instant> at) override {
    std::uint64_t replaced = 0, id = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto found = windows_.find(name);
      if (found != windows_.end()) {
        if (!restart || !found->second.ready) {
          return Error::of(ErrorCode::kConflict,
                           "window " + in_quotes(name) +
                               " is open already; end or cancel it first, or restart it");
        }
        replaced = found->second.id;
      }
      id = ++last_id_;
      windows_[name] = {.id = id, .started_at = wall_time()};
      if (at) windows_[name].started_at -= (clock_->now() - *at).value;
    }
    if (replaced != 0) drop(replaced);
    const Instant now = at.value_or(clock_->now());
    for (GpuChannel& gpu : gpus_) {
      const std::lock_guard lock(gpu.mutex);
      gpu.open(id, now);
      gpu.read(*clock_, true);
    }
    for (CpuChannel& cpu : cpus_) {
      const std::lock_guard lock(cpu.mutex);
      cpu.open(id, now);
      cpu.read(*clock_);
    }
    {
      const std::lock_guard lock(mutex_);
      windows_[name].begin = now;
      windows_[name].ready = true;
    }
    wake_.notify_all();
    return ok_status();
  }

  Result<WindowEnergy> end(const std::string& name, std::optional<Instant> at) override {
    return answer(name, true, at);
  }
  Result<WindowEnergy> so_far(const std::string& name) override { return answer(name, false, {}); }

  bool settled(Instant at) const override {
    return std::ranges::all_of(gpus_, [at](const GpuChannel& gpu) {
      const std::lock_guard lock(gpu.mutex);
      return gpu.settled(at);
    });
  }

  Status cancel(const std::string& name) override {
    const auto window = take(name, true);
    if (!window.ok()) return window.error();
    drop(window->id);
    return ok_status();
  }

  Result<std::vector<EnergyEstimate>> past(std::size_t position,
                                           std::span<const TimeSpan> spans) override {
    if (position >= gpus_.size()) {
      return Error::of(ErrorCode::kNotFound, "the monitor has no GPU " + std::to_string(position));
    }
    GpuChannel& gpu = gpus_[position];
    std::vector<EnergyEstimate> answers;
    answers.reserve(spans.size());
    for (const TimeSpan& span : spans) {
      const std::lock_guard lock(gpu.mutex);  // the sampling thread may come between
      answers.push_back(gpu.between(span));
    }
    return answers;
  }

  Result<std::vector<CounterEdge>> counter_edges(std::size_t position,
                                                 Instant since) const override {
    if (position >= gpus_.size()) {
      return Error::of(ErrorCode::kNotFound, "the monitor has no GPU " + std::to_string(position));
    }
    const GpuChannel& gpu = gpus_[position];
    const std::lock_guard lock(gpu.mutex);
    return gpu.edges(since);
  }

  std::vector<GpuIdentity> gpus() const override {
    std::vector<GpuIdentity> result;
    for (const GpuChannel& gpu : gpus_) result.push_back(gpu.gpu().identity());
    return result;
  }

  void use_gpu(std::size_t position, const std::function<void(Gpu&)>& use) override {
    GpuChannel& channel = gpus_.at(position);
    const std::lock_guard lock(channel.mutex);
    use(channel.gpu());
  }

  void poll() override {
    for (GpuChannel& gpu : gpus_) {
      const std::lock_guard lock(gpu.mutex);
      gpu.read(*clock_, false);
    }
    poll_cpus(options_.cpu_interval);
    const std::lock_guard lock(mutex_);
    rounds_ += 1;
  }

  Seconds sampling_cpu_time() const override {
    if (!options_.sampling_thread) return {0};
    clockid_t clock{};
    timespec time{};
    auto& thread = const_cast<std::thread&>(thread_);  // NOLINT(*-const-cast): only its handle
    if (pthread_getcpuclockid(thread.native_handle(), &clock) != 0) return {0};
    clock_gettime(clock, &time);
    return {static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9};
  }

  std::uint64_t rounds() const override {
    const std::lock_guard lock(mutex_);
    return rounds_;
  }

 private:
  struct Window {
    std::uint64_t id = 0;
    double started_at = 0;
    Instant begin{};
    bool ready = false;  ///< opened on all devices
  };

  void poll_cpus(Seconds interval) {
    for (CpuChannel& cpu : cpus_) {
      const std::lock_guard lock(cpu.mutex);
      if (cpu.due(clock_->now(), interval)) cpu.read(*clock_);
    }
  }

  Result<Window> take(const std::string& name, bool remove) {
    const std::lock_guard lock(mutex_);
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
    for (GpuChannel& gpu : gpus_) {
      const std::lock_guard lock(gpu.mutex);
      gpu.drop(id);
    }
    for (CpuChannel& cpu : cpus_) {
      const std::lock_guard lock(cpu.mutex);
      cpu.drop(id);
    }
  }

  Result<WindowEnergy> answer(const std::string& name, bool ends, std::optional<Instant> at) {
    const Instant now = at.value_or(clock_->now());
    const Result<Window> window = take(name, ends);
    if (!window.ok()) return window.error();
    const WindowEnd kind = ends ? WindowEnd::kOfWork : WindowEnd::kLook;
    WindowEnergy result{.name = name,
                        .started_at = window->started_at,
                        .begin = window->begin,
                        .end = now,
                        .time = now - window->begin,
                        .devices = {}};
    for (GpuChannel& gpu : gpus_) {
      const std::lock_guard lock(gpu.mutex);
      gpu.read(*clock_, true);
      result.devices.push_back(gpu.answer(window->id, now, kind));
    }
    for (CpuChannel& cpu : cpus_) {
      const std::lock_guard lock(cpu.mutex);
      cpu.read(*clock_);
      cpu.answer(window->id, now, kind, result.devices);
    }
    if (ends) drop(window->id);
    return result;
  }

  void run() {
    std::uniform_real_distribution<double> spread(1 - kSpread, 1 + kSpread);
    auto next = std::chrono::steady_clock::now();
    while (true) {
      bool idle = false;
      {
        std::unique_lock lock(mutex_);
        idle = windows_.empty();
        if (idle) {
          const std::chrono::duration<double> wait(options_.idle_cpu_interval.value);
          wake_.wait_for(lock, wait, [&] { return stopping_ || !windows_.empty(); });
          next = std::chrono::steady_clock::now();
        } else {
          wake_.wait_until(lock, next, [&] { return stopping_; });
        }
        if (stopping_) return;
      }
      if (idle) {
        poll_cpus(options_.idle_cpu_interval);
        continue;
      }
      poll();
      // Moments at random: what repeats at the rate of sampling is not always met at the same
      // phase, and readings do not keep step with the counters.
      const std::chrono::duration<double> step(spread(random_) / options_.rate);
      next += std::chrono::duration_cast<std::chrono::steady_clock::duration>(step);
      next = std::max(next, std::chrono::steady_clock::now());
    }
  }

  MonitorOptions options_;
  Clock* clock_;
  std::mt19937_64 random_;  ///< of the sampling thread
  std::deque<GpuChannel> gpus_;
  std::deque<CpuChannel> cpus_;

  mutable std::mutex mutex_;  ///< of what follows; never held while a device is read
  std::condition_variable wake_;
  std::map<std::string, Window> windows_;
  std::uint64_t last_id_ = 0;
  std::uint64_t rounds_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

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
      if (device.fault) sum.missing = time;
      continue;
    }
    if (has_module && device.kind != DeviceEnergy::Kind::kGpu) continue;
    sum.energy += device.energy.energy;
    sum.sensor_error += device.energy.sensor_error;  // sensors of one make are wrong together
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
                              [](const DeviceEnergy& device) { return device.fault.has_value(); });
}

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

}  // namespace harpe
