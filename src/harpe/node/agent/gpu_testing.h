#pragma once
/// \file
/// A GPU for tests of the agent, which records settings, and fails or delays calls on request.
/// Thread-safe, so that a test can inspect it while its owner works.

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/device/hw/device.h"

namespace harpe::node {

class TestGpu {
 public:
  struct State {
    std::optional<ClockRange> graphics, memory;
    Watts limit{275};
    bool persistence = false;
    std::uint64_t reasons = 0;
    friend bool operator==(const State&, const State&) = default;
  };

  /// Runs before each driver call. If it returns an error, the call fails with it. `call` is the
  /// name of a function of Gpu.
  using Before = std::function<Status(const std::string& call)>;

  explicit TestGpu(int index) {
    identity_.index = index;
    identity_.uuid = "GPU-test-" + std::to_string(index);
    identity_.pci = "0000:0" + std::to_string(index) + ":00.0";
    identity_.name = "Test GPU";
    identity_.backend = "test";
  }

  const GpuIdentity& identity() const { return identity_; }
  State state() const {
    const MutexLock lock(mutex_);
    return state_;
  }
  void set(const State& state) {
    const MutexLock lock(mutex_);
    state_ = state;
  }
  void before(Before before) {
    const MutexLock lock(mutex_);
    before_ = std::move(before);
  }
  /// Returns how often a function was called.
  int calls(const std::string& call) const {
    const MutexLock lock(mutex_);
    const auto found = calls_.find(call);
    return found == calls_.end() ? 0 : found->second;
  }
  bool tells_locks = true;          ///< locked clocks can be read; not so with NVML
  bool rounds_limits = false;       ///< rounds to 50 W without an error
  Watts enforced_at_most{10000};    ///< a limit that another program set
  std::filesystem::path lock_file;  ///< `Gpu::owner_lock`

  /// Returns the device, as a backend does. It must not outlive this object.
  std::unique_ptr<Gpu> device() { return std::make_unique<Device>(*this); }

 private:
  class Device final : public Gpu {
   public:
    explicit Device(TestGpu& gpu) : gpu_(gpu) {}
    const GpuIdentity& identity() const override { return gpu_.identity_; }
    std::filesystem::path owner_lock() const override { return gpu_.lock_file; }
    Result<Watts> instant_power() override {
      return read("instant_power", [](State&) { return 100_W; });
    }
    Result<Joules> total_energy() override {
      return read("total_energy", [](State&) { return 5_J; });
    }
    Result<Megahertz> clock(ClockDomain domain) override {
      return read("clock", [&](State& state) {
        const auto& lock = domain == ClockDomain::kGraphics ? state.graphics : state.memory;
        return lock ? lock->highest : 1410_MHz;
      });
    }
    Result<std::vector<Megahertz>> supported_clocks(ClockDomain domain) override {
      return read("supported_clocks", [&](State&) {
        std::vector<Megahertz> clocks;
        if (domain == ClockDomain::kMemory) return std::vector{1215_MHz};
        for (int clock = 210; clock <= 1410; clock += 15) clocks.push_back({clock});
        return clocks;
      });
    }
    Result<std::optional<ClockRange>> locked_clocks(ClockDomain domain) override {
      if (!gpu_.tells_locks) return not_supported("locked clocks");
      return read("locked_clocks", [&](State& state) {
        return domain == ClockDomain::kGraphics ? state.graphics : state.memory;
      });
    }
    Result<Watts> power_limit() override {
      return read("power_limit", [](State& state) { return state.limit; });
    }
    Result<Watts> enforced_power_limit() override {
      return read("enforced_power_limit",
                  [&](State& state) { return std::min(state.limit, gpu_.enforced_at_most); });
    }
    Result<PowerLimitRange> power_limit_range() override {
      return read("power_limit_range", [](State&) { return PowerLimitRange{100_W, 400_W, 400_W}; });
    }
    Result<EventReasons> event_reasons() override {
      return read("event_reasons", [](State& state) { return EventReasons{state.reasons}; });
    }
    Result<bool> persistence_mode() override {
      return read("persistence_mode", [](State& state) { return state.persistence; });
    }
    Status set_locked_clocks(ClockDomain domain, ClockRange range) override {
      return write("set_locked_clocks", [&](State& state) {
        (domain == ClockDomain::kGraphics ? state.graphics : state.memory) = range;
      });
    }
    Status reset_locked_clocks(ClockDomain domain) override {
      return write("reset_locked_clocks", [&](State& state) {
        (domain == ClockDomain::kGraphics ? state.graphics : state.memory).reset();
      });
    }
    Status set_power_limit(Watts limit) override {
      return write("set_power_limit", [&](State& state) {
        state.limit = gpu_.rounds_limits ? Watts{static_cast<int>(limit.value / 50) * 50.0} : limit;
      });
    }
    Status set_persistence_mode(bool enabled) override {
      return write("set_persistence_mode", [&](State& state) { state.persistence = enabled; });
    }

   private:
    Status enter(const char* call) {
      Before before;
      {
        const MutexLock lock(gpu_.mutex_);
        ++gpu_.calls_[call];
        before = gpu_.before_;
      }
      return before ? before(call) : ok_status();
    }
    template <class Get>
    auto read(const char* call, Get get) -> Result<decltype(get(std::declval<State&>()))> {
      HARPE_TRY(enter(call));
      const MutexLock lock(gpu_.mutex_);
      return get(gpu_.state_);
    }
    template <class Set>
    Status write(const char* call, Set set) {
      if (Status status = enter(call); !status.ok()) return status;
      const MutexLock lock(gpu_.mutex_);
      set(gpu_.state_);
      return ok_status();
    }

    TestGpu& gpu_;
  };

  mutable Mutex mutex_;
  GpuIdentity identity_;
  State state_ HARPE_GUARDED_BY(mutex_);
  Before before_ HARPE_GUARDED_BY(mutex_);
  std::map<std::string, int> calls_ HARPE_GUARDED_BY(mutex_);
};

}  // namespace harpe::node
