#pragma once
/// \file
/// What is done with one GPU whatever is asked of it: clock commands of its channel, restoring
/// what ended leases had set, the audit log's gathered lines, polling. No threads; time is that of
/// the clock given.
///
/// Clock commands are served at most once a minimum dwell; the newest in between waits and is never
/// lost. Where restoring failed it is tried again with growing pauses (0.1 s to 30 s), and
/// nothing is set before it succeeded.
///
/// Not thread-safe but where it says so: belongs to the thread that owns the GPU's driver
/// (gpu_owner.h).

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
  /// \param on_event  hears what an operator should know
  GpuDuties(std::unique_ptr<GpuControl> control, Seconds minimum_dwell, Counters& counters,
            const Clock& clock, std::function<void(const std::string&)> on_event);

  GpuControl& control() { return *control_; }

  /// Commands of this slot are served from now on, in place of those of any other.
  void attach(std::shared_ptr<ClockSlot> slot, Holder holder);
  /// Takes no more from the channel of that lease and restores what it had set.
  Status end_lease(const Holder& holder);
  /// Takes no more from any channel.
  void drop_slot();

  /// Serves the newest command of the channel, if it is new and its time has come. Whether it did.
  bool serve_clock();
  /// So long no command is served; after wake-ups for nothing.
  void pause(Seconds pause);
  /// What is due: retries of restoring, gathered lines.
  void serve_due();
  /// When something of that, or a command that waits, comes due; nullopt: never.
  std::optional<Instant> next_due() const;
  /// Whether a command that comes now would be served at once.
  bool listens() const { return has_slot() && next_command_ <= clock_.now(); }
  /// Whether a command waits that was not served.
  bool has_command() const { return has_slot() && slot_->wanted().sequence != last_sequence_; }
  /// Null: there is no channel.
  const std::shared_ptr<ClockSlot>& slot() const { return slot_; }

  /// Whether something may be set: not before everything of ended leases is back, which is tried.
  Status ready_to_set();
  /// Tries to put everything back, of whichever lease. \return when to try again; nullopt: all is
  /// back.
  std::optional<Instant> put_all_back();
  /// Whether something of an ended lease could not be restored yet. From any thread.
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
  Instant next_command_;               ///< no clock command is served before
  Holder to_restore_;                  ///< whose changes
  std::optional<Instant> next_retry_;  ///< when it failed
  std::optional<Error> last_failure_;
  Instant last_try_;
  Seconds retry_pause_{0};
  std::atomic<bool> could_not_restore_ = false;
};

}  // namespace harpe::node
