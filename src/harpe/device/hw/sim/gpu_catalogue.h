#pragma once
/// \file
/// The GPUs that a simulation can name, as they come from the factory.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/device/hw/sim/gpu_spec.h"

namespace harpe::device {

std::vector<std::string> simulated_gpu_names();

/// The GPU of that name, without what tells one from another (UUID, address, seed). nullopt: none.
std::optional<SimulatedGpuSpec> catalogue_gpu(std::string_view name);

}  // namespace harpe::device
