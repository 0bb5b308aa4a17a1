#pragma once
/// \file
/// The state of one simulated GPU, and the function that advances it in time. The state is plain
/// bytes, so that processes can share its memory and it can be copied as a whole. All functions are
/// pure: the caller holds the lock of the memory.
///
/// Between two events the clock is constant and power is linear in temperature, so temperature and
/// energy have closed forms. One step or many give the same result, up to rounding and to the tick
/// of 10 ms in which a limit takes effect.

#include <cstdint>

#include "harpe/device/hw/device.h"
#include "harpe/device/hw/sim/gpu_spec.h"

namespace harpe::device {

inline constexpr int kMaxStreams = 8;
inline constexpr int kMaxWorkPoints = 192;
inline constexpr int kMaxClockOrders = 8;
inline constexpr int kPowerMarks = 11;  ///< one every 100 ms: a second including both ends
inline constexpr int kMaxSimulatedProcesses = 32;
inline constexpr std::int64_t kMarkNs = 100'000'000;

/// The work of a stream: time and power at clocks in ascending order.
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

/// A clock lock that is not yet in force.
struct ClockOrder {
  std::int64_t at_ns = 0;
  ClockDomain domain = ClockDomain::kGraphics;
  SimulatedClockLock lock;
};

struct SimulatedStream {
  enum class Phase : unsigned char { kFree, kRunning, kDone };
  Phase phase = Phase::kFree;
  int pid = 0;
  std::uint64_t ticket = 0;  ///< distinguishes this work from later work in the same stream
  double left = 0;           ///< share of the work that is left
  std::int64_t begin_ns = 0, end_ns = 0;
};

struct SimulatedGpuState {
  std::int64_t time_ns = 0;  ///< time since the simulation began
  double energy_j = 0;       ///< energy of the GPU, or of the module if that is metered
  double busy_s = 0;
  double temperature_c = 0;
  double clock_mhz = 0;  ///< clock in force
  double cap_mhz = 0;    ///< controller's highest clock under the limits of power and heat
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
  int process[kMaxSimulatedProcesses] = {};  ///< ids of processes that used the GPU; 0 if free

  // Sensors.
  std::int64_t mark = -1;
  double mark_energy_j[kPowerMarks] = {}, mark_busy_s[kPowerMarks] = {};
  double counter_j = 0, counter_base_j = 0;
  std::int64_t sensor_sample = -1;
  double window_open_j = 0, sensed_w = 0;

  std::int64_t calls = 0;
  std::uint64_t tickets = 0, switches = 0;
};

/// Returns the state at time 0 of a GPU that has long been idle.
SimulatedGpuState initial_state(const SimulatedGpuSpec& spec);

/// Advances the state to `now_ns`; an earlier time than the state's is ignored. `tables` are the
/// work tables of the streams. Costs about a microsecond per 10 ms while clock or temperature
/// settle, and nothing after that.
void advance(const SimulatedGpuSpec& spec, const WorkTable* tables, SimulatedGpuState& state,
             std::int64_t now_ns);
/// Updates the clock and its reasons after a change of controls or load.
void settle(const SimulatedGpuSpec& spec, const WorkTable* tables, SimulatedGpuState& state);
/// Returns when the work of a stream will end if nothing changes; at most `horizon_ns`.
std::int64_t predicted_end(const SimulatedGpuSpec& spec, const WorkTable* tables,
                           SimulatedGpuState state, int stream, std::int64_t horizon_ns);

/// Requests a lock or its release, which takes effect after the switch latency. Does nothing if the
/// last request was the same.
void order_clocks(const SimulatedGpuSpec& spec, SimulatedGpuState& state, ClockDomain domain,
                  SimulatedClockLock lock);
/// Returns the median latency of switches between two graphics clocks.
double median_switch_latency(const SimulatedGpuSpec& spec, int from_mhz, int to_mhz);

/// Returns the present power in watts.
double true_power(const SimulatedGpuSpec& spec, const WorkTable* tables,
                  const SimulatedGpuState& state);

// Values as the driver reports them.
double visible_energy(const SimulatedGpuSpec& spec, const SimulatedGpuState& state);  ///< joules
double visible_average_power(const SimulatedGpuSpec& spec, const SimulatedGpuState& state);
double visible_instant_power(const SimulatedGpuSpec& spec, const SimulatedGpuState& state);
int visible_clock(const SimulatedGpuSpec& spec, const SimulatedGpuState& state, ClockDomain domain);
double visible_utilisation(const SimulatedGpuState& state);  ///< share of the last second, 0 to 1
double enforced_limit(const SimulatedGpuSpec& spec, const SimulatedGpuState& state);
std::vector<int> supported_clocks(const SimulatedGpuSpec& spec, ClockDomain domain);

}  // namespace harpe::device
