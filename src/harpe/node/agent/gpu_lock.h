#pragma once
/// \file
/// Locks that keep two agents from setting one GPU, wherever each keeps its files.

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"
#include "harpe/device/hw/device.h"

namespace harpe::node {

/// Holds a file locked, and writes this process's number into it, until the descriptor is closed or
/// the process ends, however it ends. `kConflict` names the process that holds it. \param what  for
/// messages: "GPU 0 (GPU-...)", "the state file /run/harpe/agent-state.json"
Result<UniqueFd> lock_file(const std::filesystem::path& file, const std::string& what);

/// Locks on GPUs. Behind the number of its holder each file has the path of the holder's state file
/// (saved_state.h): the next holder, which may have another one, finds there what a killed one
/// left.
struct GpuLocks {
  std::vector<UniqueFd> files;
  std::set<std::filesystem::path> last_states;  ///< of the last holders, absolute
};

/// Those of all GPUs (`Gpu::owner_lock`), or none.
Result<GpuLocks> lock_gpus(const std::vector<std::unique_ptr<Gpu>>& gpus);

/// Writes the path of this process's state file into the locks. Must be called before the first GPU
/// is changed. `kIo` if a lock cannot be written.
Status name_state(const GpuLocks& locks, const std::filesystem::path& state_file);

}  // namespace harpe::node
