#include "harpe/command/cli/device_view.h"

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "harpe/base/mutex.h"
#include "harpe/command/cli/measure_output.h"

namespace harpe::command {
namespace {

// A GPU whose calls each take half a second is still read in this time.
constexpr std::chrono::seconds kLongestReading(10);

/// Returns the error of a device that is gone, whose other readings are then invalid; else nullopt.
std::optional<Error> lost(Gpu& gpu) {
  const auto gone = [](const auto& reading) {
    return !reading.ok() && reading.error().code == ErrorCode::kUnavailable;
  };
  const Result<Megahertz> clock = gpu.clock(ClockDomain::kGraphics);
  if (!gone(clock) || !gone(gpu.temperature())) return std::nullopt;
  return clock.error();
}

/// Returns a control: with the error of `has` if the GPU does not support it, otherwise with the
/// permission of this process to set anything.
template <class T>
DeviceControl control(const char* name, const Result<T>& has, const Gpu& gpu) {
  if (!has.ok() && has.error().code == ErrorCode::kNotSupported) return {name, has.error()};
  return {name, gpu.may_set()};
}

DeviceView lost_view(DeviceView view, const Error& error) {
  view.lost = error;
  for (const char* name : {"graphics clock", "memory clock", "power limit", "persistence mode"}) {
    view.controls.push_back({name, error});
  }
  view.no_energy = error.text();
  return view;
}

DeviceView view_of(Gpu& gpu, bool chosen) {
  DeviceView view;
  view.identity = gpu.identity();
  view.chosen = chosen;
  view.scope = gpu.power_scope();
  if (const auto error = lost(gpu)) return lost_view(std::move(view), *error);
  auto graphics = gpu.supported_clocks(ClockDomain::kGraphics);
  auto memory = gpu.supported_clocks(ClockDomain::kMemory);
  auto range = gpu.power_limit_range();
  auto persistence = gpu.persistence_mode();
  view.controls = {control("graphics clock", graphics, gpu), control("memory clock", memory, gpu),
                   control("power limit", range, gpu),
                   control("persistence mode", persistence, gpu)};
  view.graphics_clock = value_of(gpu.clock(ClockDomain::kGraphics));
  view.memory_clock = value_of(gpu.clock(ClockDomain::kMemory));
  view.graphics_clocks = value_of(std::move(graphics));
  view.memory_clocks = value_of(std::move(memory));
  view.instant_power = value_of(gpu.instant_power());
  view.average_power = value_of(gpu.average_power());
  view.limit = value_of(gpu.power_limit());
  view.enforced_limit = value_of(gpu.enforced_power_limit());
  view.limit_range = value_of(std::move(range));
  auto energy = gpu.total_energy();
  if (!energy.ok()) view.no_energy = energy.error().text();
  view.energy = value_of(std::move(energy));
  view.temperature = value_of(gpu.temperature());
  view.utilisation = value_of(gpu.utilisation());
  view.reasons = value_of(gpu.event_reasons());
  view.persistence_mode = value_of(std::move(persistence));
  return view;
}

/// Collector of the views read by threads, one thread per GPU.
class Views {
 public:
  static std::vector<DeviceView> of(const std::vector<WantedDevice>& wanted) {
    const auto views = std::make_shared<Views>(wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      std::thread([views, i, one = wanted[i]] {
        views->put(i, view_of(*one.gpu, one.chosen));
      }).detach();
    }
    MutexLock lock(views->mutex_);
    views->changed_.wait_for(views->mutex_, kLongestReading,
                             [&views]()
                                 HARPE_REQUIRES(views->mutex_) { return views->missing_ == 0; });
    std::vector<DeviceView> result;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (views->views_[i]) {
        result.push_back(*views->views_[i]);
        continue;
      }
      DeviceView hung;
      hung.identity = wanted[i].gpu->identity();
      hung.chosen = wanted[i].chosen;
      hung.hangs = true;
      result.push_back(lost_view(
          std::move(hung),
          Error::of(ErrorCode::kUnavailable, "its driver has not answered for " +
                                                 std::to_string(kLongestReading.count()) + " s")));
    }
    return result;
  }

  explicit Views(std::size_t count) : views_(count), missing_(count) {}

 private:
  void put(std::size_t position, DeviceView view) {
    const MutexLock lock(mutex_);
    views_[position] = std::move(view);
    missing_ -= 1;
    changed_.notify_all();
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<std::optional<DeviceView>> views_ HARPE_GUARDED_BY(mutex_);
  std::size_t missing_ HARPE_GUARDED_BY(mutex_);
};

}  // namespace

std::vector<DeviceView> read_devices(const std::vector<WantedDevice>& wanted) {
  return Views::of(wanted);
}

}  // namespace harpe::command
