#pragma once
/// \file
/// Setting one GPU so that it can be restored: checked against what is allowed
/// and what the GPU supports, saved before the first change, read back after
/// each, written to the audit log.
///
/// Belongs to the thread that owns the GPU's driver; not thread-safe. Calls
/// take as long as the driver takes.

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
/// Belongs to the thread that owns the GPU's driver; not thread-safe.
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

/// On whose behalf something is set.
struct Holder {
  net::Peer peer;
  std::string lease;
  Allowance allowance;  ///< on this GPU
  Controls controls;    ///< what is restored when the lease ends
  /// When it ends (lease_book.h); null: it has ended, or never does.
  std::shared_ptr<const std::atomic<std::int64_t>> expiry = {};

  bool has_ended(Instant now) const { return expiry != nullptr && *expiry <= now.ns; }
};

class GpuControl {
 public:
  /// Settings a second that have lines of their own in the audit log, in the
  /// long run and at once.
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

  /// Sets and reads back. Diagnostics: not allowed (`kNoPermission`, names the
  /// allowed ranges), a clock that is not supported or a limit out of range
  /// (`kInvalidInput`, names the nearest clocks or the range), and what the
  /// driver answers. Where what was there before cannot be saved, nothing is
  /// set. Settings that come faster than `kSettingLines` are gathered for the
  /// audit log until `flush_changes`.
  Result<Applied> apply(const Holder& holder, const Setting& setting, Instant now);

  /// The cheap path: locks the graphics clock to the supported clock nearest to
  /// `wanted`, without reading back; answers that clock. 0 MHz takes the lock
  /// off. A clock that is in force already is not set again. Changes are
  /// gathered for the audit log until `flush_changes`.
  Result<Megahertz> set_clock(const Holder& holder, Megahertz wanted, Instant now);
  /// How often the cheap path called the driver.
  std::uint64_t clock_calls() const { return clock_calls_; }
  /// When the gathered changes should be flushed; nullopt: there are none.
  std::optional<Instant> changes_due() const;
  Status flush_changes();

  /// The settings before the agent's changes.
  SavedSettings& saved() { return saved_; }
  /// Restores what may have been changed of the holder's controls, and what
  /// earlier calls could not restore, and verifies it. What fails stays to be
  /// restored by another call.
  Status restore(const Holder& holder);

  /// Everything that can be read, or only power and energy. A GPU that tells
  /// nothing is an error.
  Result<GpuReading> read(Instant now);
  GpuReading read_power(Instant now);
  Result<PowerLimitRange> power_limit_range() { return gpu_->power_limit_range(); }
  Result<std::vector<std::int64_t>> processes() { return gpu_->processes(); }
  /// Asked of the driver once.
  Result<std::vector<Megahertz>> supported_clocks(ClockDomain domain);

 private:
  Result<Applied> lock_clocks(const Holder& holder, ClockDomain domain, ClockRange range);
  Result<Applied> reset_clocks(const Holder& holder, ClockDomain domain);
  Result<Applied> limit_power(const Holder& holder, Watts limit);
  Result<Applied> reset_power_limit(const Holder& holder);
  Result<Applied> set_persistence_mode(const Holder& holder, bool enabled);

  Status check_clocks(const Allowance& allowance, ClockDomain domain, ClockRange range);
  Status check_limit(const Allowance& allowance, Watts limit);
  /// Logs, saves, calls the driver, logs what came of it.
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
  /// The lock that this agent set last, where it knows.
  std::optional<ClockRange> graphics_lock_, memory_lock_;
  GatheredChanges clock_changes_, settings_;
  RateLimit setting_lines_{kSettingLines, kSettingLinesAtOnce};
  Instant now_;                                ///< of the setting at work
  std::optional<Instant> last_clock_failure_;  ///< that was logged
  std::uint64_t clock_calls_ = 0;
};

}  // namespace harpe::node
