#pragma once
/// \file
/// What a client asks of the agent of its node, and what it gets: leases on GPUs, settings under
/// them, readings.

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

/// A control of a GPU, which is leased, set and restored on its own. Clients of one user may hold
/// different controls of one GPU, each for its own time.
enum class Control : unsigned char { kClocks, kMemoryClocks, kPowerLimit, kPersistenceMode };

/// A set of them. All unless said otherwise.
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
  unsigned bits_ = 2 * bit(Control::kPersistenceMode) - 1;  // up to the last control
};

/// "clocks", "memory_clocks", "power_limit", "persistence_mode".
std::vector<std::string> names_of(Controls controls);
/// The control of such a name.
std::optional<Control> control_named(std::string_view name);
/// "graphics clocks, power limit"; "everything".
std::string text_of(Controls controls);

struct WattRange {
  Watts lowest, highest;
};

/// The settings that a GPU has and that the agent's policy lets this client set.
struct GpuOffer {
  std::vector<Megahertz> clocks;          ///< graphics clocks that can be locked, rising
  std::optional<PowerLimitRange> limits;  ///< that can be set
  // Allowed by the policy; empty if nothing is.
  std::vector<ClockRange> allowed_clocks;
  std::vector<WattRange> allowed_limits;
  Seconds max_lease{};
};

struct LeaseRequest {
  std::vector<int> gpus;          ///< indices; all of them or none are granted
  Seconds duration{60};           ///< until it must be renewed; at most what the policy allows
  bool ends_with_process = true;  ///< ends too when the peer's process ends (local peers only)
  std::string name;               ///< for people: "train.py"
  Controls controls = {};         ///< of these GPUs; others of the same user may hold the rest
};

struct Lease {
  std::string id;  ///< unguessable; processes of the same user that know it may use it
  std::vector<int> gpus;
  std::int64_t uid = -1;
  std::int64_t pid = 0;
  std::string name;
  Seconds expires_in;
  Controls controls = {};
};

/// One setting. The agent answers what was read back after it was set (`Applied`).
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
  ClockRange clocks = {};  ///< kLockClocks
  Watts limit = {};        ///< kPowerLimit
  bool enabled = false;    ///< kPersistenceMode
};
Control control_of(const Setting& setting);

/// The lock on a clock, as far as it is known.
struct ClockLock {
  std::optional<ClockRange> range;  ///< none: not locked
};

/// What a setting led to.
struct Applied {
  std::string text = {};                  ///< "power limit 300 W -> 250 W"
  std::optional<Watts> limit = {};        ///< enforced now
  std::optional<ClockRange> clocks = {};  ///< asked of the driver, after rounding to supported ones
  std::optional<Megahertz> clock = {};    ///< read back
  bool dry_run = false;                   ///< nothing was set: the text says what would be
  bool honoured = true;                   ///< false: rounded, or held back by something (text)
};

/// Newest readings of one GPU, from the thread that owns it. What could not be read is empty.
/// Locks are what the driver tells, else what this agent has set (NVML tells none).
struct GpuReading {
  Instant time;
  std::optional<Joules> energy;
  std::optional<Watts> power, average_power, power_limit, enforced_power_limit;
  std::optional<Megahertz> graphics_clock, memory_clock;
  std::optional<double> temperature, utilisation;
  std::optional<EventReasons> reasons;
  std::optional<bool> persistence_mode;
  std::optional<ClockLock> graphics_lock = {}, memory_lock = {};
  /// What an ended lease had set and could not be restored yet, and why; empty: nothing.
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
