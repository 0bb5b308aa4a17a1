#pragma once
/// \file
/// The settings that one GPU had before the agent changed them: saved in the
/// state file before the first change of each, and restored when the lease
/// ends.
///
/// Belongs to the thread that owns the GPU's driver; not thread-safe.

#include <optional>
#include <string>

#include "harpe/device/hw/device.h"
#include "harpe/node/agent/saved_state.h"
#include "harpe/node/node_client/controls.h"

namespace harpe::node {

class SavedSettings {
 public:
  /// What a restoration led to.
  struct Restoration {
    SavedGpu wanted;  ///< the settings to restore
    Status status;
    bool is_news = false;  ///< it did not fail for the same reason as the last one
  };

  /// Both must outlive this object.
  SavedSettings(Gpu& gpu, StateFile& state) : gpu_(gpu), state_(state) {}

  /// Takes over what another agent left changed.
  void take_over(SavedGpu saved);
  /// The settings before the agent's changes. Members that were not changed are
  /// empty.
  const SavedGpu& before() const { return saved_; }
  /// True if a setting may have been changed and is not restored.
  bool changed() const { return is_in_file_; }

  // Each saves the present setting unless it is saved already.
  /// \param holder  who changes it, for people
  Status save_lock(const std::string& holder, ClockDomain domain);
  Status save_power_limit(const std::string& holder);
  Status save_persistence_mode(const std::string& holder);
  /// Called before every change of a setting: the setting before is in the
  /// state file, so that the next agent restores it if this program ends now.
  void check_saved(bool is_saved) const;
  /// Called after a driver failed to change a setting. If it refused outright,
  /// nothing was changed, and what was saved since `before` is dropped.
  void forget_unless_changed(ErrorCode code, const SavedGpu& before);

  /// Sets a clock lock as it was before, and verifies it.
  Status put_back_lock(ClockDomain domain, const SavedLock& lock);
  /// Restores the settings of `controls`, and those that earlier calls could
  /// not restore. Returns nullopt if there are none. What fails stays to be
  /// restored by another call.
  std::optional<Restoration> restore(Controls controls);
  /// The settings that are to be restored: "power limit 300 W".
  std::string due_text() const;
  /// A sentence about the settings that could not be restored yet, with the
  /// reason; empty if none.
  std::string pending_text() const;

 private:
  std::string name() const;
  Status keep(SavedGpu saved, const std::string& holder);
  Status keep_what_is_left();
  Status restore_power_limit();
  Status restore_persistence_mode();
  Status restore_all_due();

  Gpu& gpu_;
  StateFile& state_;
  SavedGpu saved_;
  bool is_in_file_ = false;  ///< `saved_` is in the state file
  /// Controls of leases that have ended, not restored yet. Nothing else is
  /// restored.
  Controls due_ = Controls::none();
  std::string last_failure_;  ///< why the last restoration failed; empty if it did not
};

}  // namespace harpe::node
