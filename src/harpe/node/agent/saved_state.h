#pragma once
/// \file
/// What GPUs were set to before the agent changed them, in a file that outlives a crash.
///
/// An entry is written before the first change of its kind and taken out after everything is
/// restored, so that whatever is in the file may have been changed, and nothing else has been. The
/// file is replaced as a whole: a crash leaves the old one or the new one.
///
/// JSON, format "harpe.agent-state/1":
///   {"format": "harpe.agent-state/1", "boot_id": "...", "stopped": true,
///    "gpus": [{"uuid": "GPU-...", "holder": "uid 1000, pid 4242",
///              "power_limit_w": 300, "persistence_mode": false,
///              "graphics_clocks_mhz": [900, 900], "memory_clocks_mhz": null}]}
/// "stopped" is there when the agent ended in order: the entries are what GPUs refused to take
/// back. A member of a GPU is there when the agent may have changed it; null clocks were not
/// locked, as far as the driver tells (NVML does not).

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/device/hw/device.h"
#include "harpe/node/node_client/lease.h"

namespace harpe::node {

/// Stores the text of the state file, which is replaced as a whole or not at all. Not thread-safe.
class StateStorage {
 public:
  virtual ~StateStorage() = default;

  virtual std::string name() const = 0;  ///< for people: its path
  /// Returns the last text; nullopt if there is none. Fails if the text may not be this agent's.
  virtual Result<std::optional<std::string>> load() = 0;
  /// Replaces the text. After an error the last text is still stored.
  virtual Status replace(std::string_view text) = 0;
  /// Renames the stored text so that people can inspect it. Returns its new name.
  virtual Result<std::string> set_aside() = 0;
};

/// Returns a storage in a file of mode 600, padded with line ends to at least `reserve` bytes. A
/// second file beside it (`.spare`) has as much space: a new text is written there and flushed,
/// then the two exchange their names, so that neither a crash nor a full disk leaves half a text.
std::unique_ptr<StateStorage> make_file_storage(std::filesystem::path path, std::size_t reserve);

/// Bytes of a holder that are kept, and of the file that are taken for each GPU beforehand.
inline constexpr std::size_t kLongestHolder = 128, kStateBytesPerGpu = 1024;

/// The lock on a clock before a change; no range: none, or none that the driver tells.
struct SavedLock {
  std::optional<ClockRange> range;
  friend bool operator==(const SavedLock&, const SavedLock&) = default;
};

/// One GPU before it was changed. Empty members were not changed.
struct SavedGpu {
  std::string uuid;
  std::string holder;  ///< for people
  std::optional<Watts> power_limit;
  std::optional<bool> persistence_mode;
  std::optional<SavedLock> graphics, memory;

  bool empty() const { return !power_limit && !persistence_mode && !graphics && !memory; }
  friend bool operator==(const SavedGpu&, const SavedGpu&) = default;
};

/// What of it belongs to these controls.
SavedGpu part_of(SavedGpu saved, Controls controls);

struct SavedState {
  std::string boot_id;  ///< of the kernel when the entries were made
  std::vector<SavedGpu> gpus;
  bool stopped = false;  ///< the agent ended in order
  friend bool operator==(const SavedState&, const SavedState&) = default;
};

/// All errors at once: another format, unknown members, values no GPU has, a GPU twice.
Result<SavedState> parse_saved_state(std::string_view text, const std::string& file);
std::string text_of(const SavedState& state);

/// The kernel's random name for the time since the machine started.
Result<std::string> this_boot_id();

/// The file. Thread-safe; `put` and `take_out` return when the file is on the disk.
class StateFile {
 public:
  /// What the last agent left.
  struct Opened {
    std::vector<SavedGpu> to_restore;
    bool stopped = false;             ///< it ended in order, and could not put these back
    std::vector<std::string> events;  ///< what an operator should know
  };
  /// Reads and takes over the file:
  /// * none: nothing to restore;
  /// * of this boot: its entries are to be restored, and stay in the file until they are;
  /// * of an earlier boot: the driver has forgotten the settings, so nothing is restored; an event
  ///   reports it;
  /// * damaged, or writable by others: moved aside (`.damaged-N`). The changed settings are not
  ///   known, and a guess could undo what an administrator set, so nothing is restored. An event
  ///   reports it with the remedy.
  /// What is to be restored does not depend on whether the file can be written: see `trouble`.
  /// Fails only where a damaged file cannot be moved aside.
  Result<Opened> open(std::unique_ptr<StateStorage> storage, const std::string& boot_id);

  /// Writes (or replaces) the entry of one GPU.
  Status put(const SavedGpu& gpu);
  Status take_out(const std::string& uuid);
  /// The entry of one GPU; nullopt: everything of it is back.
  std::optional<SavedGpu> entry(const std::string& uuid);
  /// Writes that the agent ends in order.
  Status mark_stopped();
  /// Why the file could not be written when that was tried last; empty: it could. Nothing is set
  /// meanwhile that is not in it already.
  std::string trouble() const;

 private:
  Status write() HARPE_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::unique_ptr<StateStorage> storage_ HARPE_GUARDED_BY(mutex_);
  SavedState state_ HARPE_GUARDED_BY(mutex_);
  std::string trouble_ HARPE_GUARDED_BY(mutex_);
};

}  // namespace harpe::node
