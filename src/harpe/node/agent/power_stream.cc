#include "harpe/node/agent/power_stream.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/net/http/http_message.h"
#include "harpe/node/agent/http_json.h"

namespace harpe::node {
namespace {

/// The newest event of each device, written once for all listeners of a power stream. Events are
/// published in rounds, so that each listener receives one message per round, however many devices
/// changed. Thread-safe.
class PowerBoard {
 public:
  /// Sets the event of a device for the next round. `value` is the event without its time. Returns
  /// false and changes nothing if it equals the previous value.
  bool put(int device, const std::string& value, std::string event) {
    const MutexLock lock(mutex_);
    Entry& entry = entries_[device];
    if (entry.value == value) return false;
    entry.value = value;
    entry.kept = std::move(event);
    return true;
  }

  /// Publishes the events set since the last round.
  void publish() {
    const MutexLock lock(mutex_);
    ++publications_;
    for (auto& [device, entry] : entries_) {
      if (entry.kept.empty()) continue;
      entry.event = std::exchange(entry.kept, {});
      entry.published = publications_;
    }
  }

  /// Number of the last publication sent to a listener, for each of its devices.
  using Seen = std::vector<std::uint64_t>;

  /// Returns the newest events of `devices` that were published since `seen`, and updates `seen`.
  std::string newer(const std::vector<int>& devices, Seen& seen) const {
    const MutexLock lock(mutex_);
    std::string text;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const auto found = entries_.find(devices[i]);
      if (found == entries_.end() || found->second.published <= seen[i]) continue;
      text += found->second.event;
      seen[i] = found->second.published;
    }
    return text;
  }

  bool has_newer(const std::vector<int>& devices, const Seen& seen) const {
    const MutexLock lock(mutex_);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const auto found = entries_.find(devices[i]);
      if (found != entries_.end() && found->second.published > seen[i]) return true;
    }
    return false;
  }

  /// Removes all events, because they are no longer current.
  void clear() {
    const MutexLock lock(mutex_);
    entries_.clear();
  }

 private:
  struct Entry {
    std::string value, kept, event;
    std::uint64_t published = 0;  ///< number of its last publication; 0 if it was not published
  };

  mutable Mutex mutex_;
  std::map<int, Entry> entries_ HARPE_GUARDED_BY(mutex_);
  std::uint64_t publications_ HARPE_GUARDED_BY(mutex_) = 0;
};

constexpr const char* kHeartbeatText = ": hb\n\n";

/// The stream of one listener.
class PowerListener final : public net::EventStream {
 public:
  /// \param client  the client whose number of listeners is limited
  PowerListener(std::shared_ptr<const PowerBoard> board, std::vector<int> devices,
                std::string client)
      : board_(std::move(board)),
        devices_(std::move(devices)),
        client_(std::move(client)),
        seen_(devices_.size()) {}

  void start(std::function<void()> wake) override {
    {
      const MutexLock lock(mutex_);
      wake_ = std::move(wake);
    }
    after_round();
  }

  std::string take() override {
    const MutexLock lock(mutex_);
    std::string text = board_->newer(devices_, seen_);
    if (text.empty() && heartbeat_due_) text = kHeartbeatText;
    heartbeat_due_ = false;
    if (!text.empty()) quiet_ = false;
    return text;
  }

  /// Wakes the connection if there are new events for it. Called after a round.
  void after_round() {
    {
      const MutexLock lock(mutex_);
      if (!board_->has_newer(devices_, seen_)) return;
    }
    wake();
  }

  /// Sends a heartbeat if the last period had no event. Called once a period.
  void heartbeat() {
    {
      const MutexLock lock(mutex_);
      if (!std::exchange(quiet_, true)) return;
      heartbeat_due_ = true;
    }
    wake();
  }

  const std::string& client() const { return client_; }

 private:
  void wake() {
    std::function<void()> wake;
    {
      const MutexLock lock(mutex_);
      wake = wake_;
    }
    if (wake) wake();
  }

  const std::shared_ptr<const PowerBoard> board_;
  const std::vector<int> devices_;
  const std::string client_;
  Mutex mutex_;
  std::function<void()> wake_ HARPE_GUARDED_BY(mutex_);
  PowerBoard::Seen seen_ HARPE_GUARDED_BY(mutex_);
  bool quiet_ HARPE_GUARDED_BY(mutex_) = false, heartbeat_due_ HARPE_GUARDED_BY(mutex_) = false;
};

using Listeners = std::vector<std::weak_ptr<PowerListener>>;

std::vector<std::shared_ptr<PowerListener>> alive(Listeners& all) {
  std::vector<std::shared_ptr<PowerListener>> found;
  std::erase_if(all, [&found](const std::weak_ptr<PowerListener>& weak) {
    auto listener = weak.lock();
    if (listener == nullptr) return true;
    found.push_back(std::move(listener));
    return false;
  });
  return found;
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
  State(Controller& given_controller, net::ServerLoop& given_loop, Clock& given_clock)
      : controller(given_controller), loop(given_loop), clock(given_clock) {}

  // --- Readings, on threads of the controller.

  void heard(int gpu, const GpuReading& reading) {
    if (!reading.power) return;
    const std::int64_t time = unix_milliseconds(reading.time, clock);
    const std::int64_t milliwatts = milli(reading.power->value);
    bool kept =
        zeusd->put(gpu, std::to_string(milliwatts),
                   event_text({{"timestamp_ms", time}, {"gpu_id", gpu}, {"power_mw", milliwatts}}));
    nlohmann::ordered_json data = reading_json(gpu, reading);
    const std::string value = json_line(data);
    data["timestamp_ms"] = time;
    kept |= native->put(gpu, value, event_text(data));
    if (kept) ask_for_round();
  }

  void heard_cpu(int cpu, const CpuEnergy& energy) {
    const Instant now = clock.now();
    CpuSample before;
    {
      const MutexLock lock(samples_mutex);
      before = std::exchange(last_cpu[cpu], CpuSample{now, energy});
    }
    const Seconds time = now - before.time;
    if (!before.energy || time <= Seconds{0}) return;
    const auto power = cpu_power_json(*before.energy, energy, time);
    nlohmann::ordered_json data = {{"timestamp_ms", unix_milliseconds(now, clock)},
                                   {"cpu_id", cpu}};
    data.update(power);
    if (cpu_power->put(cpu, json_line(power), event_text(data))) ask_for_round();
  }

  void ask_for_round() {
    if (round_asked.exchange(true)) return;
    loop.post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->begin_round();
    });
  }

  // --- Rounds, on the loop's thread.

  void begin_round() {
    const Seconds left = next_round - clock.now();
    if (left <= Seconds{0}) return round();
    loop.after(left, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->round();
    });
  }

  void round() {
    round_asked = false;
    for (const auto& board : {zeusd, native, cpu_power}) board->publish();
    const auto all = everyone();
    for (const auto& listener : all) listener->after_round();
    const Seconds pace{static_cast<double>(all.size()) / kMostSends};
    next_round = clock.now() + std::max(kRound, pace);
  }

  /// Ends polling of GPUs if they have no listener, and sends heartbeats to all listeners.
  void beat() {
    if (alive(gpu_listeners).empty()) polling_gpus.reset();
    const auto all = everyone();
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

  // --- Polling.

  void begin_gpus() {
    if (polling_gpus != nullptr) return;
    zeusd->clear();
    native->clear();
    polling_gpus = controller.listen([weak = weak_from_this()](int gpu, const GpuReading& reading) {
      if (const auto self = weak.lock()) self->heard(gpu, reading);
    });
  }

  void poll_cpus() {
    polling_cpus = !alive(cpu_listeners).empty();
    if (!polling_cpus) {
      cpu_power->clear();
      const MutexLock lock(samples_mutex);
      return last_cpu.clear();
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

  // --- Listeners.

  std::vector<std::shared_ptr<PowerListener>> everyone() {
    auto all = alive(gpu_listeners);
    const auto cpu = alive(cpu_listeners);
    all.insert(all.end(), cpu.begin(), cpu.end());
    return all;
  }

  Result<std::shared_ptr<PowerListener>> add(Listeners& to,
                                             const std::shared_ptr<PowerBoard>& board,
                                             std::vector<int> devices,
                                             const net::HttpRequest& request) {
    const auto all = everyone();
    const bool root = request.peer.uid == 0;
    const auto own = std::ranges::count_if(
        all, [&](const auto& listener) { return listener->client() == request.client; });
    if (all.size() >= kMostListeners + (root ? kForRoot : 0) ||
        (!root && static_cast<std::size_t>(own) >= kMostOfClient)) {
      return Error::of(ErrorCode::kUnavailable,
                       "too many power streams are open, or you already have " +
                           std::to_string(kMostOfClient) + "; close some or try again later");
    }
    auto listener = std::make_shared<PowerListener>(board, std::move(devices), request.client);
    to.push_back(listener);
    begin_beat();
    return listener;
  }

  struct CpuSample {
    Instant time;
    std::optional<CpuEnergy> energy;
  };

  Controller& controller;
  net::ServerLoop& loop;
  Clock& clock;
  const std::shared_ptr<PowerBoard> zeusd = std::make_shared<PowerBoard>();
  const std::shared_ptr<PowerBoard> native = std::make_shared<PowerBoard>();
  const std::shared_ptr<PowerBoard> cpu_power = std::make_shared<PowerBoard>();
  Mutex samples_mutex;
  std::map<int, CpuSample> last_cpu HARPE_GUARDED_BY(samples_mutex);
  std::atomic<bool> round_asked = false;

  // The loop's thread only.
  Listeners gpu_listeners, cpu_listeners;
  Instant next_round;
  std::shared_ptr<void> polling_gpus;
  bool polling_cpus = false;
  bool beating = false;
  net::Peer cpu_peer;
};

PowerStream::PowerStream(Controller& controller, net::ServerLoop& loop, Clock& clock)
    : state_(std::make_shared<State>(controller, loop, clock)) {}

PowerStream::~PowerStream() {
  close();
}

void PowerStream::close() {
  state_->polling_gpus.reset();
}

Result<std::shared_ptr<net::EventStream>> PowerStream::gpus(std::vector<int> gpus, Format format,
                                                            const net::HttpRequest& request) {
  auto listener = HARPE_TRY(state_->add(state_->gpu_listeners,
                                        format == Format::kZeusd ? state_->zeusd : state_->native,
                                        std::move(gpus), request));
  state_->begin_gpus();
  return std::shared_ptr<net::EventStream>(std::move(listener));
}

Result<std::shared_ptr<net::EventStream>> PowerStream::cpus(std::vector<int> cpus,
                                                            const net::HttpRequest& request) {
  auto listener =
      HARPE_TRY(state_->add(state_->cpu_listeners, state_->cpu_power, std::move(cpus), request));
  state_->cpu_peer = request.peer;
  if (!state_->polling_cpus) state_->poll_cpus();
  return std::shared_ptr<net::EventStream>(std::move(listener));
}

std::size_t PowerStream::listeners() const {
  return state_->everyone().size();
}

}  // namespace harpe::node
