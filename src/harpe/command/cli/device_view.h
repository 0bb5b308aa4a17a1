#pragma once
/// \file
/// Output of `harpe devices` about GPUs and CPUs, for people and for programs. Include only in
/// `.cc` files.

#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/command/command/json_output.h"
#include "harpe/device/hw/devices.h"
#include "harpe/device/hw/gpu_choice.h"

namespace harpe::command {

/// A control of a GPU, and whether this user may set it.
struct DeviceControl {
  const char* name = "";
  Status allowed = ok_status();
};

/// The readings of one GPU, read once. Values that cannot be read are nullopt.
struct DeviceView {
  GpuIdentity identity;
  bool chosen = false;
  std::optional<Megahertz> graphics_clock, memory_clock;
  std::optional<std::vector<Megahertz>> graphics_clocks, memory_clocks;
  std::optional<Watts> instant_power, average_power, limit, enforced_limit;
  std::optional<PowerLimitRange> limit_range;
  std::optional<Joules> energy;
  std::string no_energy;  ///< reason why there is no energy counter
  PowerScope scope = PowerScope::kGpu;
  std::optional<double> temperature, utilisation;
  std::optional<EventReasons> reasons;
  std::optional<bool> persistence_mode;
  std::vector<DeviceControl> controls;
  std::optional<Error> lost;  ///< the driver's error, if all readings of the GPU fail
  bool hangs = false;         ///< `lost`, because a call of its driver does not return
};

struct WantedDevice {
  Gpu* gpu;
  bool chosen;
};
/// Reads each GPU in its own thread, so that none waits for the driver of another. The threads of
/// GPUs that do not respond in time continue to run.
std::vector<DeviceView> read_devices(const std::vector<WantedDevice>& wanted);

/// \param visible  the GPUs that programs started here use
std::string devices_text(const Devices& devices, const std::vector<DeviceView>& gpus,
                         const Result<device::GpuChoice>& visible, int columns, bool coloured);
Json devices_json(const Devices& devices, const std::vector<DeviceView>& gpus,
                  const Result<device::GpuChoice>& visible);

}  // namespace harpe::command
