#pragma once
/// \file
/// Requests from clients to the agent of a node and their results: leases on GPUs, settings under a
/// lease, readings.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"
#include "harpe/device/hw/device.h"

namespace harpe::node {

/// A control of a GPU, which is leased, set and restored independently. Clients of one user may
/// hold different controls of one GPU for different times.
enum class Control : unsigned char { kClocks, kMemoryClocks, kPowerLimit, kPersistenceMode };
inline constexpr unsigned kControlCount = static_cast<unsigned>(Control::kPersistenceMode) + 1;

/// A set of controls; all controls by default.
class Controls {
 public:
  constexpr Controls() = default;
  constexpr Controls(std::initializer_list<Control> controls) : bits_(0) {
    for (const Control control : controls) bits_ |= bit(control);
  }
  static constexpr Controls none() { return Controls(std::initializer_list<Control>{}); }

  constexpr bool has(Control control) const { return (bits_ & bit(control)) != 0; }
  constexpr bool overlaps(Controls other) const { return (bits_ & other.bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr void add(Controls other) { bits_ |= other.bits_; }
  constexpr void remove(Control control) { bits_ &= ~bit(control); }
  friend constexpr bool operator==(Controls, Controls) = default;

 private:
  static constexpr unsigned bit(Control control) { return 1U << static_cast<unsigned>(control); }
  unsigned bits_ = (1U << kControlCount) - 1;
};

/// Returns the names of controls: "clocks", "memory_clocks", "power_limit", "persistence_mode".
std::vector<std::string> names_of(Controls controls);
/// Returns the control with such a name; nullopt if there is none.
std::optional<Control> control_named(std::string_view name);
/// Returns controls as text, such as "graphics clocks, power limit" or "everything".
std::string text_of(Controls controls);

struct WattRange {
  Watts lowest, highest;
};

/// The settings that a GPU supports, and the settings that the agent's policy allows this client.
struct GpuOffer {
  std::vector<Megahertz> clocks;          ///< graphics clocks that can be locked, ascending
  std::optional<PowerLimitRange> limits;  ///< power limits that can be set
  // Ranges that the policy allows; empty if none.
  std::vector<ClockRange> allowed_clocks;
  std::vector<WattRange> allowed_limits;
  Seconds max_lease{};
};

struct LeaseRequest {
  std::vector<int> gpus;          ///< indices; either all GPUs are granted or none
  Seconds duration{60};           ///< time until renewal; reduced to the policy's maximum
  bool ends_with_process = true;  ///< if true, also ends with the peer's process (local peers only)
  std::string name;               ///< name for people: "train.py"
  Controls controls = {};  ///< controls to lease; other clients of the user may hold the rest
};

struct Lease {
  std::string id;  ///< unguessable id; processes of the same user that know it may use the lease
  std::vector<int> gpus;
  std::int64_t uid = -1;
  std::int64_t pid = 0;
  std::string name;
  Seconds expires_in;
  Controls controls = {};
};

/// One setting. The agent returns the value read back after setting it (`Applied`).
struct Setting {
  enum class Kind : unsigned char {
    kLockClocks,
    kResetClocks,
    kPowerLimit,
    kResetPowerLimit,
    kPersistenceMode
  };
  Kind kind = Kind::kLockClocks;
  ClockDomain domain = ClockDomain::kGraphics;
  ClockRange clocks = {};  ///< for kLockClocks
  Watts limit = {};        ///< for kPowerLimit
  bool enabled = false;    ///< for kPersistenceMode
};
Control control_of(const Setting& setting);

/// A known state of a clock lock.
struct ClockLock {
  std::optional<ClockRange> range;  ///< nullopt if not locked
};

/// The result of a setting.
struct Applied {
  std::string text = {};                  ///< "power limit 300 W -> 250 W"
  std::optional<Watts> limit = {};        ///< power limit now enforced
  std::optional<ClockRange> clocks = {};  ///< requested lock, or the driver's lock if it differs
  std::optional<Megahertz> clock = {};    ///< clock read back
  bool dry_run = false;                   ///< true if nothing was set; `text` describes the setting
  bool honoured = true;                   ///< false if changed by the driver or throttled (`text`)
};

/// Newest readings of one GPU, from the thread that owns it. Values that could not be read are
/// empty. A lock is the one that the driver reports, or the one that this agent set if the driver
/// does not report locks (NVML).
struct GpuReading {
  Instant time;
  std::optional<Joules> energy;
  std::optional<Watts> power, average_power, power_limit, enforced_power_limit;
  std::optional<Megahertz> graphics_clock, memory_clock;
  std::optional<double> temperature, utilisation;
  std::optional<EventReasons> reasons;
  std::optional<bool> persistence_mode;
  std::optional<ClockLock> graphics_lock = {}, memory_lock = {};
  /// Settings of ended leases that could not be restored yet, with the reason; empty if none.
  std::string restore_pending = {};
};

// Settings in words.

std::string list_of(const std::vector<int>& gpus);  ///< "GPU 0", "GPUs 0, 1"
const char* name_of(ClockDomain domain);            ///< "graphics"
std::string text_of(Watts power);                   ///< "300 W", "250.5 W"
std::string text_of(Megahertz clock);               ///< "1410 MHz"
std::string text_of(ClockRange range);              ///< "900 to 1410 MHz", "900 MHz"
std::string text_of(const ClockLock& lock);         ///< "900 MHz", "not locked"
std::string text_of(const Setting& setting);        ///< "graphics clocks 900 MHz"

}  // namespace harpe::node
