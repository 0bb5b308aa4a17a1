#pragma once
/// \file
/// The configuration of a simulation: a TOML file. docs/simulated-gpus.md describes its keys.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/device/hw/sim/gpu_spec.h"

namespace harpe::device {

struct SimulatedCpuSpec {
  double power_w = 60;
  double dram_w = 0;  ///< 0 if not metered
};

struct SimulationConfig {
  std::vector<SimulatedGpuSpec> gpus;
  std::vector<SimulatedCpuSpec> cpus;
  std::filesystem::path state_file;  ///< empty for a name from user and digest in /dev/shm
  bool shared_by_everyone = false;
};

inline constexpr int kMaxSimulatedGpus = 64;

/// Parses a configuration. Reports all errors at once, with line and column.
Result<SimulationConfig> parse_simulation(std::string_view text, const std::string& file);

}  // namespace harpe::device
