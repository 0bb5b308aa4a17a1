#pragma once
/// \file
/// The state of one simulated GPU, and the function that moves it on in time. State is plain bytes,
/// so that it can lie in memory that processes share and be copied whole. Everything here is pure:
/// the caller holds whatever lock the memory needs.
///
/// Between two events the clock is constant and power is linear in temperature, so temperature and
/// energy have closed forms: advancing in one step or in many gives the same, up to rounding and
/// to the tick of 10 ms in which a limit begins to bite.

#include <cstdint>

#include "harpe/device/hw/device.h"
#include "harpe/device/hw/sim/gpu_spec.h"

namespace harpe::device {

inline constexpr int kMaxStreams = 8;
inline constexpr int kMaxWorkPoints = 192;
inline constexpr int kMaxClockOrders = 8;
inline constexpr int kPowerMarks = 11;  ///< every 100 ms: a second and both its ends
inline constexpr int kMaxSimulatedProcesses = 32;
inline constexpr std::int64_t kMarkNs = 100'000'000;

/// What a stream runs: time and power at rising clocks.
struct WorkTable {
  int points = 0;
  double softness = 0;
  double clock[kMaxWorkPoints] = {};
  double seconds[kMaxWorkPoints] = {};
  double watts[kMaxWorkPoints] = {};
};

struct SimulatedClockLock {
  bool on = false;
  int lowest = 0, highest = 0;
  friend bool operator==(const SimulatedClockLock&, const SimulatedClockLock&) = default;
};

/// A lock on its way to the chip.
struct ClockOrder {
  std::int64_t at_ns = 0;
  ClockDomain domain = ClockDomain::kGraphics;
  SimulatedClockLock lock;
};

struct SimulatedStream {
  enum class Phase : unsigned char { kFree, kRunning, kDone };
  Phase phase = Phase::kFree;
  int pid = 0;
  std::uint64_t ticket = 0;  ///< tells this work from others in the same place
  double left = 0;           ///< share of the work
  std::int64_t begin_ns = 0, end_ns = 0;
};

struct SimulatedGpuState {
  std::int64_t time_ns = 0;  ///< since the simulation began
  double energy_j = 0;       ///< of what is metered: of the module, where that is
  double busy_s = 0;
  double temperature_c = 0;
  double clock_mhz = 0;  ///< in force
  double cap_mhz = 0;    ///< how far power and heat let the clock go, as the controller sees it
  std::uint64_t reasons = 0;
  bool hardware_slowdown = false;

  // Controls.
  double limit_w = 0;
  bool persistence = true;
  SimulatedClockLock lock_asked[2], lock_in_force[2];  ///< by ClockDomain
  int assignments = 0;
  ClockOrder order[kMaxClockOrders];

  // Load.
  double load = 0;
  SimulatedStream stream[kMaxStreams];
  int process[kMaxSimulatedProcesses] = {};  ///< ids of processes that used it; 0: free

  // Sensors.
  std::int64_t mark = -1;
  double mark_energy_j[kPowerMarks] = {}, mark_busy_s[kPowerMarks] = {};
  double counter_j = 0, counter_base_j = 0;
  std::int64_t sensor_sample = -1;
  double window_open_j = 0, sensed_w = 0;

  std::int64_t calls = 0;
  std::uint64_t tickets = 0, switches = 0;
};

/// A GPU that has been idle for long, at time 0.
SimulatedGpuState initial_state(const SimulatedGpuSpec& spec);

/// Moves the state on to `now_ns`; does nothing if that is in its past. `tables` are those of the
/// streams. Costs about a microsecond for every 10 ms while clock or temperature settle, and
/// nothing once they have.
void advance(const SimulatedGpuSpec& spec, const WorkTable* tables, SimulatedGpuState& state,
             std::int64_t now_ns);
/// Brings the clock and its reasons in line with controls and load that were changed just now.
void settle(const SimulatedGpuSpec& spec, const WorkTable* tables, SimulatedGpuState& state);
/// When the work of a stream will end, if nothing is changed meanwhile; `horizon_ns` if not before.
std::int64_t predicted_end(const SimulatedGpuSpec& spec, const WorkTable* tables,
                           SimulatedGpuState state, int stream, std::int64_t horizon_ns);

/// Sends a lock (or its release) on its way to the chip, where it is not what was asked for last.
void order_clocks(const SimulatedGpuSpec& spec, SimulatedGpuState& state, ClockDomain domain,
                  SimulatedClockLock lock);
/// The latency of one switch between two graphics clocks without the spread from one switch to the
/// next.
double median_switch_latency(const SimulatedGpuSpec& spec, int from_mhz, int to_mhz);

/// Watts at this moment.
double true_power(const SimulatedGpuSpec& spec, const WorkTable* tables,
                  const SimulatedGpuState& state);

// As the driver shows them.
double visible_energy(const SimulatedGpuSpec& spec, const SimulatedGpuState& state);  ///< joules
double visible_average_power(const SimulatedGpuSpec& spec, const SimulatedGpuState& state);
double visible_instant_power(const SimulatedGpuSpec& spec, const SimulatedGpuState& state);
int visible_clock(const SimulatedGpuSpec& spec, const SimulatedGpuState& state, ClockDomain domain);
double visible_utilisation(const SimulatedGpuState& state);  ///< of the last second, 0 to 1
double enforced_limit(const SimulatedGpuSpec& spec, const SimulatedGpuState& state);
std::vector<int> supported_clocks(const SimulatedGpuSpec& spec, ClockDomain domain);

}  // namespace harpe::device
