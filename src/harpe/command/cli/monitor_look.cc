#include "harpe/command/cli/monitor_look.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "harpe/command/cli/measure_output.h"

namespace harpe {

void GpuViews::read(std::size_t position, Gpu& gpu) {
  Entry entry{.view = view_of(gpu), .index = gpu.identity().index, .processes = {}};
  if (all_) {
    entry.view.memory = value_of(gpu.memory());
    entry.processes = value_of(gpu.processes()).value_or(std::vector<std::int64_t>());
    {
      const MutexLock lock(mutex_);
      entry.view.highest_clock = entries_[position].view.highest_clock;
    }
    if (!entry.view.highest_clock) {  // it does not change, and all clocks are read for it
      const auto clocks = gpu.supported_clocks(ClockDomain::kGraphics);
      if (clocks.ok() && !clocks->empty()) entry.view.highest_clock = clocks->back();
    }
  }
  const MutexLock lock(mutex_);
  entries_[position] = std::move(entry);
}

std::vector<GpuView> GpuViews::get(std::size_t gpus) const {
  const MutexLock lock(mutex_);
  std::vector<GpuView> views;
  for (std::size_t i = 0; i < gpus; ++i) views.push_back(entries_[i].view);
  return views;
}

std::map<int, std::vector<std::int64_t>> GpuViews::processes() const {
  const MutexLock lock(mutex_);
  std::map<int, std::vector<std::int64_t>> processes;
  for (const Entry& entry : entries_) {
    if (entry.index >= 0) processes[entry.index] = entry.processes;
  }
  return processes;
}

Result<Look> Looker::now() {
  WindowEnergy window = HARPE_TRY(monitor_.so_far(window_));
  Look now{.window = std::move(window), .gpus = views_.get(monitor_.gpus().size()), .mean = {}};
  for (std::size_t i = 0; i < now.window.devices.size(); ++i) {
    const EnergyEstimate& energy = now.window.devices[i].energy;
    const Seconds time = now.window.time - time_before_;
    std::optional<Watts> mean;
    if (energy.source != EnergySource::kNone && time.value > 0 && error_known(energy)) {
      const Joules before = i < before_.size() ? before_[i] : Joules{0};
      mean = std::max(Watts{0}, (energy.energy - before) / time);
    }
    now.mean.push_back(mean);
  }
  before_.clear();
  for (const DeviceEnergy& device : now.window.devices) before_.push_back(device.energy.energy);
  time_before_ = now.window.time;
  return now;
}

Status Looker::restart() {
  HARPE_TRY(monitor_.begin(window_, true));
  before_.clear();
  time_before_ = {};
  return ok_status();
}

}  // namespace harpe
