#pragma once
/// \file
/// Reversible control of one GPU. Each setting is checked against the policy and the GPU's range.
/// The value before the first change is saved. Every change is audited, and read back unless it is
/// made on the fast path (`set_clock`).
///
/// Not thread-safe: only the thread that owns the GPU's driver calls it. Calls wait for the driver.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/device/hw/device.h"
#include "harpe/node/agent/audit_log.h"
#include "harpe/node/agent/controller.h"
#include "harpe/node/agent/policy.h"
#include "harpe/node/agent/rate_limit.h"
#include "harpe/node/agent/saved_state.h"
#include "harpe/node/node_client/lease.h"

namespace harpe::node {

/// The settings that one GPU had before the agent changed them. Each is saved in the state file
/// before its first change, and restored when the lease ends.
///
/// Not thread-safe: only the thread that owns the GPU's driver calls it.
class SavedSettings {
 public:
  /// The result of a restoration.
  struct Restoration {
    SavedGpu wanted;  ///< the settings to restore
    Status status;
    bool is_news = false;  ///< false if it failed for the same reason as the last restoration
  };

  /// Both must outlive this object.
  SavedSettings(Gpu& gpu, StateFile& state) : gpu_(gpu), state_(state) {}

  /// Takes over the settings that an earlier agent changed and did not restore.
  void take_over(SavedGpu saved);
  /// Returns the settings before the agent's changes. Members that were not changed are empty.
  const SavedGpu& before() const { return saved_; }
  /// Returns true if a setting may have been changed and is not restored.
  bool changed() const { return is_in_file_; }

  // Each saves the present setting unless it is saved already.
  /// \param holder  text that names the client, for people
  Status save_lock(const std::string& holder, ClockDomain domain);
  Status save_power_limit(const std::string& holder);
  Status save_persistence_mode(const std::string& holder);
  /// Checks, before every change of a setting, that its old value is in the state file, so that the
  /// next agent restores it if this program ends now. Ends the program otherwise.
  void check_saved(bool is_saved) const;
  /// Handles a driver's failure to change a setting. If the driver refused outright, nothing was
  /// changed, so values saved since `before` are dropped.
  void forget_unless_changed(ErrorCode code, const SavedGpu& before);

  /// Restores a clock lock and verifies it.
  Status put_back_lock(ClockDomain domain, const SavedLock& lock);
  /// Restores the settings of `controls` and all settings that earlier calls could not restore.
  /// Returns nullopt if there are none. The next call tries again to restore those that fail.
  std::optional<Restoration> restore(Controls controls);
  /// Returns the settings still to be restored, such as "power limit 300 W".
  std::string due_text() const;
  /// Returns a sentence about the settings that could not be restored yet, with the reason; empty
  /// if there are none.
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
  bool is_in_file_ = false;  ///< true if `saved_` is in the state file
  /// Controls of ended leases that are not restored yet. Only these are restored.
  Controls due_ = Controls::none();
  std::string last_failure_;  ///< error of the last restoration; empty if it succeeded
};

/// The client and lease on whose behalf a control is set.
struct Holder {
  net::Peer peer;
  std::string lease;
  Allowance allowance;  ///< rights on this GPU
  Controls controls;    ///< controls to restore when the lease ends
  /// Expiry time of the lease (lease_book.h); null if it has ended or never expires.
  std::shared_ptr<const std::atomic<std::int64_t>> expiry = {};

  bool has_ended(Instant now) const { return expiry != nullptr && *expiry <= now.ns; }
};

class GpuControl {
 public:
  /// Rate (per second) and burst of settings that get a line of their own in the audit log.
  static constexpr double kSettingLines = 1, kSettingLinesAtOnce = 60;

  struct Services {
    StateFile& state;
    AuditLog& audit;
    Counters& counters;
    bool audit_required = true;
    bool dry_run = false;
  };
  GpuControl(std::unique_ptr<Gpu> gpu, Services services);

  const GpuIdentity& identity() const { return gpu_->identity(); }
  std::string name() const;  ///< "GPU 3"

  /// Applies a setting and reads it back. Fails with `kNoPermission` (names the allowed ranges) if
  /// the policy does not allow it, with `kInvalidInput` (names the nearest clocks or the range) if
  /// the clock is not supported or the limit is out of range, and with the driver's error. If the
  /// value before cannot be saved, nothing is set. Settings above the rate `kSettingLines` are
  /// gathered for the audit log until `flush_changes`.
  Result<Applied> apply(const Holder& holder, const Setting& setting, Instant now);

  /// Locks the graphics clock on the fast path: to the supported clock nearest to `wanted`, without
  /// reading it back. Returns that clock. With 0 MHz, restores the clock lock from before the
  /// lease. Does not call the driver if the clock is already in force. Changes are gathered for the
  /// audit log until `flush_changes`.
  Result<Megahertz> set_clock(const Holder& holder, Megahertz wanted, Instant now);
  /// Returns the number of driver calls of the fast path.
  std::uint64_t clock_calls() const { return clock_calls_; }
  /// Returns when the gathered changes should be flushed; nullopt if there are none.
  std::optional<Instant> changes_due() const;
  Status flush_changes();

  /// Returns the settings before the agent's changes.
  SavedSettings& saved() { return saved_; }
  /// Restores and verifies the holder's controls if they may have been changed, and all settings
  /// that earlier calls could not restore. The next call tries again to restore those that fail.
  Status restore(const Holder& holder);

  /// Reads everything. Fails if no reading succeeds and one failed other than as not supported.
  Result<GpuReading> read(Instant now);
  /// Reads only power and energy. A reading that fails is empty.
  GpuReading read_power(Instant now);
  Result<PowerLimitRange> power_limit_range() { return gpu_->power_limit_range(); }
  Result<std::vector<std::int64_t>> processes() { return gpu_->processes(); }
  /// Returns the supported clocks in ascending order. Calls the driver until the first success.
  Result<std::vector<Megahertz>> supported_clocks(ClockDomain domain);

 private:
  Result<Applied> lock_clocks(const Holder& holder, ClockDomain domain, ClockRange range);
  Result<Applied> reset_clocks(const Holder& holder, ClockDomain domain);
  Result<Applied> limit_power(const Holder& holder, Watts limit);
  Result<Applied> reset_power_limit(const Holder& holder);
  Result<Applied> set_persistence_mode(const Holder& holder, bool enabled);

  Status check_clocks(const Allowance& allowance, ClockDomain domain, ClockRange range);
  Status check_limit(const Allowance& allowance, Watts limit);
  /// Logs the request, saves the value before, calls the driver, and logs the result.
  template <class Save, class Call>
  Status change(AuditEntry entry, Save save, Call call);
  Status log_request(AuditEntry& entry, bool gathered);
  Status log_result(AuditEntry& entry, bool gathered, const Status& status);
  const std::optional<SavedLock>& before_of(ClockDomain domain) const {
    return domain == ClockDomain::kGraphics ? saved_.before().graphics : saved_.before().memory;
  }
  Applied read_back_clocks(ClockDomain domain, std::optional<ClockRange> range);
  Applied read_back_limit(Watts before, Watts asked);
  std::optional<ClockLock> known_lock(ClockDomain domain);
  AuditEntry entry(const Holder& holder, const char* action, std::string from,
                   std::string to) const;

  std::unique_ptr<Gpu> gpu_;
  Services services_;
  SavedSettings saved_;
  std::optional<Result<std::vector<Megahertz>>> graphics_clocks_, memory_clocks_;
  /// The lock that this agent set last; nullopt if unknown.
  std::optional<ClockRange> graphics_lock_, memory_lock_;
  GatheredChanges clock_changes_, settings_;
  RateLimit setting_lines_{kSettingLines, kSettingLinesAtOnce};
  Instant now_;                                ///< time of the setting being applied
  std::optional<Instant> last_clock_failure_;  ///< time of the last failure that was logged
  std::uint64_t clock_calls_ = 0;
};

}  // namespace harpe::node
