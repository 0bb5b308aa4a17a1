#pragma once
/// \file
/// Energy of CPU packages and their memory, from the counters that Linux shows under
/// /sys/class/powercap (RAPL: Intel since Sandy Bridge; AMD since family 17h, packages only).
///
/// Since 2020 only root may read them; virtual machines mostly have none.

#include <filesystem>
#include <memory>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/device/hw/devices.h"

namespace harpe {

struct RaplDevices {
  std::vector<std::unique_ptr<Cpu>> cpus;
  BackendState state;
};

/// The packages under `root`. A package whose counter may not be read is among them and answers
/// `kNoPermission`; the state then says what would help. `clock` tells wraps from new starts
/// (energy_counter.h) and must outlive the CPUs.
RaplDevices open_rapl(const std::filesystem::path& root, Clock& clock);

}  // namespace harpe
