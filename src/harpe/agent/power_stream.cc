#include "harpe/agent/power_stream.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "harpe/agent/http_json.h"

namespace harpe {
namespace {

constexpr const char* kHeartbeatText = ": hb\n\n";

/// What one client has yet to be sent: of each device the newest event alone.
class Subscription final : public EventStream {
 public:
  Subscription(std::vector<int> devices, PowerStream::Format format)
      : devices_(std::move(devices)), format_(format) {}

  void start(std::function<void()> wake) override {
    {
      const std::lock_guard lock(mutex_);
      wake_ = std::move(wake);
    }
    if (has_something()) wake_();
  }

  std::string take() override {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const auto& [device, event] : waiting_) text += event;
    waiting_.clear();
    if (text.empty() && heartbeat_due_) text = kHeartbeatText;
    heartbeat_due_ = false;
    if (!text.empty()) quiet_ = false;
    return text;
  }

  /// Keeps `event` unless what it says of the device was said last.
  void put(int device, const std::string& value, std::string event) {
    {
      const std::lock_guard lock(mutex_);
      std::string& last = last_[device];
      if (last == value) return;
      last = value;
      waiting_[device] = std::move(event);
    }
    wake();
  }

  /// Called once a period: a period without any event is ended with a sign of life.
  void heartbeat() {
    {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(quiet_, true)) return;
      heartbeat_due_ = true;
    }
    wake();
  }

  const std::vector<int>& devices() const { return devices_; }
  PowerStream::Format format() const { return format_; }

 private:
  bool has_something() {
    const std::lock_guard lock(mutex_);
    return !waiting_.empty();
  }
  void wake() {
    std::function<void()> wake;
    {
      const std::lock_guard lock(mutex_);
      wake = wake_;
    }
    if (wake) wake();
  }

  const std::vector<int> devices_;
  const PowerStream::Format format_;
  std::mutex mutex_;
  std::function<void()> wake_;
  std::map<int, std::string> last_, waiting_;
  bool quiet_ = false, heartbeat_due_ = false;
};

using Subscriptions = std::vector<std::weak_ptr<Subscription>>;

std::vector<std::shared_ptr<Subscription>> alive(Subscriptions& all) {
  std::vector<std::shared_ptr<Subscription>> found;
  std::erase_if(all, [&found](const std::weak_ptr<Subscription>& weak) {
    auto subscription = weak.lock();
    if (subscription == nullptr) return true;
    found.push_back(std::move(subscription));
    return false;
  });
  return found;
}

bool wants(const Subscription& subscription, int device) {
  const auto& devices = subscription.devices();
  return std::find(devices.begin(), devices.end(), device) != devices.end();
}

std::string event_text(const nlohmann::ordered_json& data) {
  return "data: " + json_line(data) + "\n\n";
}

}  // namespace

std::int64_t unix_milliseconds(Instant instant, Clock& clock) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::int64_t unix_ns = static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
  return (unix_ns + (instant.ns - clock.now().ns)) / 1'000'000;
}

struct PowerStream::State : std::enable_shared_from_this<State> {
  State(Controller& given_controller, ServerLoop& given_loop, Clock& given_clock)
      : controller(given_controller), loop(given_loop), clock(given_clock) {}

  /// On a thread of the controller.
  void heard(int gpu, const GpuReading& reading) {
    if (!reading.power) return;
    std::vector<std::shared_ptr<Subscription>> listeners;
    {
      const std::lock_guard lock(mutex);
      listeners = alive(gpu_listeners);
    }
    const std::int64_t time = unix_milliseconds(reading.time, clock);
    const std::int64_t milliwatts = milli(reading.power->value);
    for (const auto& listener : listeners) {
      if (!wants(*listener, gpu)) continue;
      if (listener->format() == Format::kZeusd) {
        listener->put(
            gpu, std::to_string(milliwatts),
            event_text({{"timestamp_ms", time}, {"gpu_id", gpu}, {"power_mw", milliwatts}}));
      } else {
        nlohmann::ordered_json data = reading_json(gpu, reading);
        const std::string value = json_line(data);
        data["timestamp_ms"] = time;
        listener->put(gpu, value, event_text(data));
      }
    }
  }

  void begin_gpus() {
    if (polling_gpus != nullptr) return;
    polling_gpus = controller.listen([weak = weak_from_this()](int gpu, const GpuReading& reading) {
      if (const auto self = weak.lock()) self->heard(gpu, reading);
    });
  }

  /// Ends polling for which nobody is left, and shows the others that the line is up.
  void beat() {
    std::vector<std::shared_ptr<Subscription>> all;
    bool gpus_left = false;
    {
      const std::lock_guard lock(mutex);
      all = alive(gpu_listeners);
      gpus_left = !all.empty();
      const auto cpu = alive(cpu_listeners);
      all.insert(all.end(), cpu.begin(), cpu.end());
    }
    if (!gpus_left) polling_gpus.reset();
    for (const auto& listener : all) listener->heartbeat();
    beating = !all.empty();
    if (beating) next_beat();
  }

  void next_beat() {
    loop.after(kHeartbeat, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->beat();
    });
  }

  void begin_beat() {
    if (std::exchange(beating, true)) return;
    next_beat();
  }

  void poll_cpus() {
    bool wanted = false;
    {
      const std::lock_guard lock(mutex);
      wanted = !alive(cpu_listeners).empty();
    }
    polling_cpus = wanted;
    if (!wanted) {
      last_cpu.clear();
      return;
    }
    for (int cpu = 0; cpu < controller.cpus(); ++cpu) {
      controller.read_cpu(cpu_peer, cpu, [weak = weak_from_this(), cpu](Result<CpuEnergy> energy) {
        const auto self = weak.lock();
        if (self != nullptr && energy.ok()) self->heard_cpu(cpu, *energy);
      });
    }
    loop.after(kCpuPoll, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->poll_cpus();
    });
  }

  void heard_cpu(int cpu, const CpuEnergy& energy) {
    const Instant now = clock.now();
    std::vector<std::shared_ptr<Subscription>> listeners;
    CpuSample before;
    {
      const std::lock_guard lock(mutex);
      before = std::exchange(last_cpu[cpu], CpuSample{now, energy});
      listeners = alive(cpu_listeners);
    }
    const Seconds time = now - before.time;
    if (!before.energy || time <= Seconds{0}) return;
    const auto power = cpu_power_json(*before.energy, energy, time);
    nlohmann::ordered_json data = {{"timestamp_ms", unix_milliseconds(now, clock)},
                                   {"cpu_id", cpu}};
    data.update(power);
    for (const auto& listener : listeners) {
      if (wants(*listener, cpu)) listener->put(cpu, json_line(power), event_text(data));
    }
  }

  struct CpuSample {
    Instant time;
    std::optional<CpuEnergy> energy;
  };

  Controller& controller;
  ServerLoop& loop;
  Clock& clock;
  std::mutex mutex;  ///< guards what follows up to the blank line
  Subscriptions gpu_listeners, cpu_listeners;
  std::map<int, CpuSample> last_cpu;

  std::shared_ptr<void> polling_gpus;
  bool polling_cpus = false;
  bool beating = false;
  Peer cpu_peer;
};

PowerStream::PowerStream(Controller& controller, ServerLoop& loop, Clock& clock)
    : state_(std::make_shared<State>(controller, loop, clock)) {}

PowerStream::~PowerStream() {
  close();
}

void PowerStream::close() {
  state_->polling_gpus.reset();
}

std::shared_ptr<EventStream> PowerStream::gpus(std::vector<int> gpus, Format format) {
  const auto subscription = std::make_shared<Subscription>(std::move(gpus), format);
  {
    const std::lock_guard lock(state_->mutex);
    state_->gpu_listeners.push_back(subscription);
  }
  state_->begin_gpus();
  state_->begin_beat();
  return subscription;
}

std::shared_ptr<EventStream> PowerStream::cpus(std::vector<int> cpus, const Peer& peer) {
  const auto subscription = std::make_shared<Subscription>(std::move(cpus), Format::kZeusd);
  {
    const std::lock_guard lock(state_->mutex);
    state_->cpu_listeners.push_back(subscription);
  }
  state_->cpu_peer = peer;
  if (!state_->polling_cpus) state_->poll_cpus();
  state_->begin_beat();
  return subscription;
}

std::size_t PowerStream::listeners() const {
  const std::lock_guard lock(state_->mutex);
  return alive(state_->gpu_listeners).size() + alive(state_->cpu_listeners).size();
}

}  // namespace harpe
