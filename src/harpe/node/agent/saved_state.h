#pragma once
/// \file
/// The settings that GPUs had before the agent changed them, in a file that survives a crash.
///
/// A setting is written before its first change and removed after it is restored. So every setting
/// in the file may have been changed, and no other setting has been. The file is replaced
/// atomically: a crash leaves either the old or the new file.
///
/// JSON, format "harpe.agent-state/1":
///   {"format": "harpe.agent-state/1", "boot_id": "...", "stopped": true,
///    "gpus": [{"uuid": "GPU-...", "holder": "uid 1000, pid 4242",
///              "power_limit_w": 300, "persistence_mode": false,
///              "graphics_clocks_mhz": [900, 900], "memory_clocks_mhz": null}]}
/// "stopped" exists if the agent stopped in order; the entries are then settings that could not be
/// restored. A GPU has a member for each setting that the agent may have changed. Null clocks were
/// not locked, or the driver does not report locks (NVML).

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

/// Storage for the text of the state file, with atomic replacement. Not thread-safe.
class StateStorage {
 public:
  virtual ~StateStorage() = default;

  virtual std::string name() const = 0;  ///< name for people: the path
  /// Returns the last text; nullopt if there is none. Fails if another user may have written it.
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

/// Largest number of bytes of a holder, and bytes of the file reserved for each GPU.
inline constexpr std::size_t kLongestHolder = 128, kStateBytesPerGpu = 1024;

/// A clock lock before a change; `range` is nullopt if not locked or not reported by the driver.
struct SavedLock {
  std::optional<ClockRange> range;
  friend bool operator==(const SavedLock&, const SavedLock&) = default;
};

/// The settings of one GPU before they were changed. Empty members were not changed.
struct SavedGpu {
  std::string uuid;
  std::string holder;  ///< for people
  std::optional<Watts> power_limit;
  std::optional<bool> persistence_mode;
  std::optional<SavedLock> graphics, memory;

  bool empty() const { return !power_limit && !persistence_mode && !graphics && !memory; }
  friend bool operator==(const SavedGpu&, const SavedGpu&) = default;
};

/// Returns `saved` without the settings of other controls.
SavedGpu part_of(SavedGpu saved, Controls controls);

struct SavedState {
  std::string boot_id;  ///< boot id of the kernel when the entries were written
  std::vector<SavedGpu> gpus;
  bool stopped = false;  ///< true if the agent stopped in order
  friend bool operator==(const SavedState&, const SavedState&) = default;
};

/// Parses the text of a state file. Reports all errors at once: another format, unknown members,
/// impossible values, a duplicate GPU.
Result<SavedState> parse_saved_state(std::string_view text, const std::string& file);
std::string text_of(const SavedState& state);

/// Returns the kernel's random id of the present boot.
Result<std::string> this_boot_id();

/// The state file. Thread-safe; `put` and `take_out` return when the file is on the disk.
class StateFile {
 public:
  /// The settings that the last agent left changed.
  struct Opened {
    std::vector<SavedGpu> to_restore;
    bool stopped = false;             ///< true if that agent stopped in order and failed to restore
    std::vector<std::string> events;  ///< events for the operator
  };
  /// Reads and takes over the file:
  /// * no file: there is nothing to restore;
  /// * of this boot: its entries are to be restored, and stay in the file until then;
  /// * of an earlier boot: the driver has forgotten the settings, so nothing is restored; an event
  ///   reports it;
  /// * damaged, or writable by others: moved aside (`.damaged-N`). The changed settings are not
  ///   known, and a guess could undo an administrator's setting, so nothing is restored. An event
  ///   reports it with the remedy.
  /// The entries are to be restored even if the file cannot be written: see `trouble`. Fails only
  /// if a damaged file cannot be moved aside.
  Result<Opened> open(std::unique_ptr<StateStorage> storage, const std::string& boot_id);

  /// Writes (or replaces) the entry of one GPU.
  Status put(const SavedGpu& gpu);
  Status take_out(const std::string& uuid);
  /// Returns the entry of one GPU; nullopt if all its settings are restored.
  std::optional<SavedGpu> entry(const std::string& uuid);
  /// Records in the file that the agent stops in order.
  Status mark_stopped();
  /// Returns why the last write of the file failed; empty if it succeeded. While writes fail, only
  /// settings already in the file may be changed.
  std::string trouble() const;

 private:
  Status write() HARPE_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::unique_ptr<StateStorage> storage_ HARPE_GUARDED_BY(mutex_);
  SavedState state_ HARPE_GUARDED_BY(mutex_);
  std::string trouble_ HARPE_GUARDED_BY(mutex_);
};

}  // namespace harpe::node
