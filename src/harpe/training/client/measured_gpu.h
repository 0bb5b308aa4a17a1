#pragma once
/// \file
/// The GPU of a rank: found among this node's, and sampled.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/device/hw/devices.h"
#include "harpe/device/measure/energy_monitor.h"
#include "harpe/training/client/clock_readings.h"
#include "harpe/training/client/rank_client_options.h"

namespace harpe {

/// What could be found: without a GPU that can be read, all but `index` is empty.
struct MeasuredGpu {
  /// The GPU that the options name, else the LOCAL_RANK-th of those that this process may use
  /// (CUDA_VISIBLE_DEVICES and its kin), else its only one. What is missing is said by the options'
  /// line of the log; fails only where an index is given that no GPU has.
  static Result<MeasuredGpu> find(const RankClientOptions& options);

  std::optional<int> index;  ///< in PCI order, as the agent counts
  std::string name;
  bool simulated = false;
  std::vector<Megahertz> clocks;  ///< that it can be locked to
  Watts power_limit{};            ///< 0: not known
  Devices devices;                ///< outlive the monitor, as do
  std::unique_ptr<ClockReadings> clock_readings;
  std::unique_ptr<EnergyMonitor> monitor;
};

}  // namespace harpe
