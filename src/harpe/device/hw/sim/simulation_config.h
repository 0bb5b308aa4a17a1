#pragma once
/// \file
/// The configuration of a simulation: a TOML file. Its keys stand in docs/simulated-gpus.md.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/device/hw/sim/gpu_spec.h"

namespace harpe::device {

struct SimulatedCpuSpec {
  double power_w = 60;
  double dram_w = 0;  ///< 0: not metered
};

struct SimulationConfig {
  std::vector<SimulatedGpuSpec> gpus;
  std::vector<SimulatedCpuSpec> cpus;
  std::filesystem::path state_file;  ///< empty: named by user and digest, in /dev/shm
  bool shared_by_everyone = false;
};

inline constexpr int kMaxSimulatedGpus = 64;

/// All faults at once, with line and column.
Result<SimulationConfig> parse_simulation(std::string_view text, const std::string& file);

}  // namespace harpe::device
