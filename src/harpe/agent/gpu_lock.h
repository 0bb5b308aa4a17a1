#pragma once
/// \file
/// Locks that keep two agents from setting one GPU, wherever each keeps its files.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"
#include "harpe/hw/device.h"

namespace harpe {

/// Holds a file locked, and writes this process's number into it, until the descriptor is closed or
/// the process ends, however it ends. `kConflict` names the process that holds it. \param what  for
/// messages: "GPU 0 (GPU-...)", "the state file /run/harpe/agent-state.json"
Result<UniqueFd> lock_file(const std::filesystem::path& file, const std::string& what);

/// Those of all GPUs (`Gpu::owner_lock`), or none.
Result<std::vector<UniqueFd>> lock_gpus(const std::vector<std::unique_ptr<Gpu>>& gpus);

}  // namespace harpe
