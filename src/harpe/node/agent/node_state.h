#pragma once
/// \file
/// The state file of an agent, the locks that keep other agents from its GPUs, and the settings
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

// Locks that keep two agents from setting one GPU, wherever each keeps its files.

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

/// The newest hundred events that an operator should know of. Thread-safe.
class AgentEvents {
 public:
  /// \param on_event  receives each event as it is added; may be empty; must not block
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

/// Opened once, before the threads that use its file start. A GPU is restored from the entry that
/// is in the file, or was taken over from the file of a killed agent that had this GPU before.
class NodeState {
 public:
  /// Takes the locks, opens the file, and moves entries of these GPUs from other state files into
  /// it. Fails if another agent holds one of the GPUs.
  Status open(const std::filesystem::path& file, const Devices& devices, AgentEvents& events);

  StateFile& file() { return file_; }
  const StateFile& file() const { return file_; }
  /// Returns the GPUs that were left changed, of this node now or before.
  const std::vector<SavedGpu>& to_restore() const { return to_restore_; }
  /// Returns true if the last agent ended in order but could not restore these GPUs.
  bool last_stopped() const { return last_stopped_; }

 private:
  Status take_locks(const std::filesystem::path& file, const Devices& devices);
  Status adopt_entries(const std::filesystem::path& file, const std::string& boot_id,
                       const Devices& devices, AgentEvents& events);

  StateFile file_;
  UniqueFd lock_;  ///< of the file
  GpuLocks gpu_locks_;
  std::vector<SavedGpu> to_restore_;
  bool last_stopped_ = false;
};

}  // namespace harpe::node
