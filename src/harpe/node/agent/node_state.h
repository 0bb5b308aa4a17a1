#pragma once
/// \file
/// The state file of an agent with the locks that make it this agent's alone, and what agents
/// before it left changed on its GPUs.

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/base/unique_fd.h"
#include "harpe/device/hw/devices.h"
#include "harpe/node/agent/gpu_lock.h"
#include "harpe/node/agent/saved_state.h"

namespace harpe::node {

/// What an operator should know: the newest hundred events. Thread-safe.
class AgentEvents {
 public:
  /// \param on_event  receives each event as it is added; may be empty; must not block
  explicit AgentEvents(std::function<void(const std::string&)> on_event)
      : on_event_(std::move(on_event)) {}

  void add(const std::string& text);
  std::vector<std::string> all() const;
  /// From now on `on_event` is not called any more.
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
  /// Takes the locks, opens the file and takes over what other files say of these GPUs. Fails if
  /// another agent runs with one of them.
  Status open(const std::filesystem::path& file, const Devices& devices, AgentEvents& events);

  StateFile& file() { return file_; }
  const StateFile& file() const { return file_; }
  /// What was left changed, of GPUs that this node has now or had before.
  const std::vector<SavedGpu>& to_restore() const { return to_restore_; }
  /// True if the last agent ended in order, and could not restore these.
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
