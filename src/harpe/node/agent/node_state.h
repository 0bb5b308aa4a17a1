#pragma once
/// \file
/// The state file of an agent, the locks that exclude other agents from its GPUs, and the settings
/// that earlier agents left changed.

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"
#include "harpe/device/hw/device.h"
#include "harpe/device/hw/devices.h"
#include "harpe/node/agent/saved_state.h"

namespace harpe::node {

// Locks that prevent two agents from setting one GPU, even if their state files differ.

/// Locks a file until the descriptor is closed or the process ends in any way, and writes this
/// process's id into it. Fails with `kConflict`, naming the holder, if the file is locked.
/// \param what  for messages: "GPU 0 (GPU-...)", "the state file /run/harpe/agent-state.json"
Result<UniqueFd> lock_file(const std::filesystem::path& file, const std::string& what);

/// Locks on GPUs. After the id of its holder, each file contains the path of the holder's state
/// file (saved_state.h). If the holder is killed, the next holder, which may use another state
/// file, finds the settings to restore there.
struct GpuLocks {
  std::vector<UniqueFd> files;
  std::set<std::filesystem::path> last_states;  ///< absolute paths of the last holders' state files
};

/// Locks all GPUs (`Gpu::owner_lock`), or none.
Result<GpuLocks> lock_gpus(const std::vector<std::unique_ptr<Gpu>>& gpus);

/// Writes the path of this process's state file into the locks. Must be called before the first GPU
/// is changed. Fails with `kIo` if a lock cannot be written.
Status name_state(const GpuLocks& locks, const std::filesystem::path& state_file);

/// The newest hundred events for the operator. Thread-safe.
class AgentEvents {
 public:
  /// \param on_event  called with each event when it is added; may be empty; must not block
  explicit AgentEvents(std::function<void(const std::string&)> on_event)
      : on_event_(std::move(on_event)) {}

  void add(const std::string& text);
  std::vector<std::string> all() const;
  /// Stops calling `on_event`.
  void silence();

 private:
  mutable Mutex mutex_;
  std::function<void(const std::string&)> on_event_ HARPE_GUARDED_BY(mutex_);
  std::vector<std::string> events_ HARPE_GUARDED_BY(mutex_);
};

/// The state of an agent, opened once before the threads that use its file start. A GPU is restored
/// from its entry in the file, or in the file of a killed agent that had this GPU before.
class NodeState {
 public:
  /// Acquires the locks, opens the file, and moves entries of these GPUs from other state files
  /// into it. Fails if another agent holds one of the GPUs.
  Status open(const std::filesystem::path& file, const Devices& devices, AgentEvents& events);

  StateFile& file() { return file_; }
  const StateFile& file() const { return file_; }
  /// Returns the GPUs that were left changed, including GPUs that the node no longer has.
  const std::vector<SavedGpu>& to_restore() const { return to_restore_; }
  /// Returns true if the last agent stopped in order but could not restore these GPUs.
  bool last_stopped() const { return last_stopped_; }

 private:
  Status take_locks(const std::filesystem::path& file, const Devices& devices);
  Status adopt_entries(const std::filesystem::path& file, const std::string& boot_id,
                       const Devices& devices, AgentEvents& events);

  StateFile file_;
  UniqueFd lock_;  ///< lock on the state file
  GpuLocks gpu_locks_;
  std::vector<SavedGpu> to_restore_;
  bool last_stopped_ = false;
};

}  // namespace harpe::node
