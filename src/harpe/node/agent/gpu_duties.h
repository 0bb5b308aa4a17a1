#pragma once
/// \file
/// The recurring work on one GPU: clock commands of its channel, restoring settings of ended
/// leases, gathered lines of the audit log. No threads; the time is the given clock's.
///
/// Clock commands are served at most once per minimum dwell; the newest command in between waits
/// and is never lost. A failed restoration is retried with increasing pauses (0.1 s to 30 s), and
/// nothing is set before it succeeds.
///
/// Not thread-safe, except as noted: called by the thread that owns the GPU's driver (gpu_owner.h).

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "harpe/base/clock.h"
#include "harpe/node/agent/controller.h"
#include "harpe/node/agent/gpu_control.h"
#include "harpe/node/node_client/clock_slot.h"

namespace harpe::node {

class GpuDuties {
 public:
  /// \param on_event  called with events for the operator
  GpuDuties(std::unique_ptr<GpuControl> control, Seconds minimum_dwell, Counters& counters,
            const Clock& clock, std::function<void(const std::string&)> on_event);

  GpuControl& control() { return *control_; }

  /// Serves the commands of this slot from now on, and of no other.
  void attach(std::shared_ptr<ClockSlot> slot, Holder holder);
  /// Stops serving the channel of a lease and restores the lease's settings.
  Status end_lease(const Holder& holder);
  /// Stops serving the present channel.
  void drop_slot();

  /// Serves the newest command of the channel if it is new and due. Returns true if it was served.
  bool serve_clock();
  /// Serves no command for this long. Used after needless wake-ups.
  void pause(Seconds pause);
  /// Performs work that is due: retries of restoring, gathered lines of the audit log.
  void serve_due();
  /// Returns when such work or a waiting command is due next; nullopt if never.
  std::optional<Instant> next_due() const;
  /// Returns true if a command that arrives now would be served at once.
  bool listens() const { return has_slot() && next_command_ <= clock_.now(); }
  /// Returns true if a command waits that was not served.
  bool has_command() const { return has_slot() && slot_->wanted().sequence != last_sequence_; }
  /// Returns the slot of the channel; null if there is none.
  const std::shared_ptr<ClockSlot>& slot() const { return slot_; }

  /// Returns ok if settings are allowed. Until all settings of ended leases are restored, tries to
  /// restore them and fails if that fails.
  Status ready_to_set();
  /// Tries to restore all settings of all leases. Returns when to try again; nullopt if done.
  std::optional<Instant> put_all_back();
  /// Returns true if a setting of an ended lease could not be restored yet. Thread-safe.
  bool could_not_restore() const { return could_not_restore_; }

 private:
  bool has_slot() const { return slot_ != nullptr && !slot_->closed(); }
  void serve(ClockSlot::Wanted wanted);
  Status restore(const Holder& holder);

  std::unique_ptr<GpuControl> control_;
  const Seconds minimum_dwell_;
  Counters& counters_;
  const Clock& clock_;
  const std::function<void(const std::string&)> on_event_;

  std::shared_ptr<ClockSlot> slot_;
  Holder slot_holder_;
  std::uint32_t last_sequence_ = 0;
  Instant next_command_;               ///< earliest time of the next clock command
  Holder to_restore_;                  ///< holder whose controls are to be restored
  std::optional<Instant> next_retry_;  ///< time of the next try; nullopt if none failed
  std::optional<Error> last_failure_;
  Instant last_try_;
  Seconds retry_pause_{0};
  std::atomic<bool> could_not_restore_ = false;
};

}  // namespace harpe::node
