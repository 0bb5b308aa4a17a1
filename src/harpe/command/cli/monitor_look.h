#pragma once
/// \file
/// How `harpe monitor` looks at devices: what the sampling threads read of GPUs beside their
/// energy, and one look at all of it. Only for `.cc` files.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/mutex.h"
#include "harpe/command/cli/monitor_view.h"

namespace harpe {

/// What each GPU showed last. Thread-safe, but `read` of one GPU is for one thread at a time.
class GpuViews {
 public:
  /// \param all  what a terminal's view shows more than lines do, too
  GpuViews(std::size_t gpus, bool all) : all_(all), entries_(gpus) {}

  /// What `MonitorOptions::look` does.
  void read(std::size_t position, Gpu& gpu);
  std::vector<GpuView> get(std::size_t gpus) const;
  /// By index of the GPU, as they were listed last.
  std::map<int, std::vector<std::int64_t>> processes() const;

 private:
  struct Entry {
    GpuView view;
    int index = -1;  ///< -1: not read yet
    std::vector<std::int64_t> processes;
  };
  const bool all_;
  mutable Mutex mutex_;
  std::vector<Entry> entries_ HARPE_GUARDED_BY(mutex_);
};

/// Looks at a window that is open. Not thread-safe.
class Looker {
 public:
  /// Both must outlive this.
  Looker(EnergyMonitor& monitor, const GpuViews& views, std::string window)
      : monitor_(monitor), views_(views), window_(std::move(window)) {}

  Result<Look> now();
  /// The window begins anew.
  Status restart();

 private:
  EnergyMonitor& monitor_;
  const GpuViews& views_;
  std::string window_;
  std::vector<Joules> before_;
  Seconds time_before_{0};
};

}  // namespace harpe
