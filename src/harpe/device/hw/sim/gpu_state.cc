#include "harpe/device/hw/sim/gpu_state.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "harpe/base/hashed_random.h"

namespace harpe::device {
namespace {

constexpr std::uint64_t kStepJitter = 2;         // purpose of random numbers, after kSensorNoise
constexpr std::int64_t kMostJitter = 6;          // bound on `normal`, in standard deviations
constexpr std::int64_t kControlNs = 10'000'000;  // period of the chip's clock controller
constexpr double kSettledKelvin = 0.005;
constexpr double kSettledMegahertz = 0.05;
constexpr double kPreciseMegahertz = 1e-6, kPreciseWatts = 1e-7;
constexpr double kThermalRange = 8;         // kelvin in which the clock falls to the lowest
constexpr double kHardwareHysteresis = 3;   // kelvin
constexpr double kHardwareShare = 0.5;      // of the highest clock
constexpr double kMemoryPowerShare = 0.25;  // of static power, scales with the memory clock
constexpr std::int64_t kLongGapNs = 600'000'000'000;
constexpr std::int64_t kMostSteps = 60'000;  // most control steps of one call over a long gap

double seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

int running_streams(const SimulatedGpuState& state) {
  int running = 0;
  for (const SimulatedStream& stream : state.stream) {
    running += stream.phase == SimulatedStream::Phase::kRunning ? 1 : 0;
  }
  return running;
}

bool is_busy(const SimulatedGpuState& state) {
  return state.load > 0 || running_streams(state) > 0;
}

/// Returns the value at a clock: linear between points, constant beyond the first and last.
double interpolated(const WorkTable& table, const double (&values)[kMaxWorkPoints], double clock) {
  const double* const begin = table.clock;
  const double* const end = begin + table.points;
  const double* const above = std::lower_bound(begin, end, clock);
  if (above == end) return values[table.points - 1];
  const auto i = above - begin;
  if (i == 0) return values[0];
  const double share = (clock - begin[i - 1]) / (begin[i] - begin[i - 1]);
  return values[i - 1] + (values[i] - values[i - 1]) * share;
}

double memory_speed(const SimulatedGpuSpec& spec, const SimulatedGpuState& state) {
  const SimulatedClockLock& lock = state.lock_in_force[1];
  return lock.on ? lock.highest / static_cast<double>(spec.memory_clocks.back()) : 1;
}

/// Power as a linear function of temperature.
struct PowerLine {
  double at_reference = 0, per_kelvin = 0;
  double at(const SimulatedGpuSpec& spec, double temperature) const {
    return at_reference + per_kelvin * (temperature - spec.reference_c);
  }
};

PowerLine power_line(const SimulatedGpuSpec& spec, const WorkTable* tables,
                     const SimulatedGpuState& state, double clock) {
  const int running = running_streams(state);
  if (running == 0 && state.load == 0) {
    return {spec.idle_power_w, spec.idle_power_w * spec.leakage};
  }
  const double fixed = spec.gpu.static_power.value;
  const double dynamic =
      spec.gpu.dynamic_power.value * dynamic_share(spec.gpu, clock / spec.gpu.max_clock.value);
  double power = fixed;
  if (running > 0) {
    power = 0;
    for (int i = 0; i < kMaxStreams; ++i) {
      if (state.stream[i].phase != SimulatedStream::Phase::kRunning) continue;
      power += interpolated(tables[i], tables[i].watts, clock) / running;
    }
  }
  power += state.load * dynamic;
  power -= kMemoryPowerShare * fixed * (1 - memory_speed(spec, state));
  return {power, fixed * spec.leakage};
}

/// Returns the duration of the whole work of a stream that runs alone at a clock, s.
double work_seconds(const SimulatedGpuSpec& spec, const WorkTable& table,
                    const SimulatedGpuState& state, double clock, double wanted) {
  double time = interpolated(table, table.seconds, clock);
  if (clock < table.clock[0]) time *= table.clock[0] / std::max(clock, 1.0);
  const double highest = spec.gpu.max_clock.value;
  time /= 1 - spec.gpu.throttle_loss * (wanted - clock) / highest;
  return time * (1 + spec.gpu.memory_bound * (1 / memory_speed(spec, state) - 1));
}

double wanted_clock(const SimulatedGpuSpec& spec, const SimulatedGpuState& state) {
  const SimulatedClockLock& lock = state.lock_in_force[0];
  if (is_busy(state)) return lock.on ? lock.highest : spec.gpu.max_clock.value;
  return lock.on ? lock.lowest : spec.gpu.min_clock.value;
}

double softness(const SimulatedGpuSpec& spec, const WorkTable* tables,
                const SimulatedGpuState& state) {
  double most = state.load > 0 ? spec.gpu.limit_softness : 0;
  for (int i = 0; i < kMaxStreams; ++i) {
    if (state.stream[i].phase != SimulatedStream::Phase::kRunning) continue;
    most = std::max(most, tables[i].softness);
  }
  return most;
}

/// The highest clock allowed by limits, with the reasons of these limits.
struct Cap {
  double clock = 0;
  std::uint64_t reasons = 0;

  void lower(double to, std::uint64_t why) {
    if (to >= clock) return;
    clock = to;
    reasons |= why;
  }
};

double power_cap(const SimulatedGpuSpec& spec, const WorkTable* tables,
                 const SimulatedGpuState& state, double wanted, double temperature) {
  const double limit = enforced_limit(spec, state);
  const auto demand = [&](double clock) {
    return power_line(spec, tables, state, clock).at(spec, temperature);
  };
  const double at_wanted = demand(wanted);
  const double allowed = limit * limited(at_wanted / limit, softness(spec, tables, state));
  if (at_wanted <= allowed) return spec.gpu.max_clock.value;
  double low =
      std::min<double>(wanted, std::max(spec.gpu.throttle_floor, spec.gpu.min_clock).value);
  double high = wanted;
  double below = demand(low) - allowed, above = at_wanted - allowed;
  if (below >= 0) return low;
  // Regula falsi that halves the weight of an unchanged end (Illinois method): needs few steps.
  int stays = 0;
  for (int i = 0; i < 60 && high - low > kPreciseMegahertz; ++i) {
    const double middle = low + (high - low) * -below / (above - below);
    const double excess = demand(middle) - allowed;
    if (std::abs(excess) < kPreciseWatts) return middle;
    if (excess < 0) {
      low = middle;
      below = excess;
      if (stays < 0) above /= 2;
      stays = -1;
    } else {
      high = middle;
      above = excess;
      if (stays > 0) below /= 2;
      stays = 1;
    }
  }
  return low;
}

/// Returns the controller's target at this temperature.
Cap wanted_cap(const SimulatedGpuSpec& spec, const WorkTable* tables,
               const SimulatedGpuState& state, double temperature) {
  const double highest = spec.gpu.max_clock.value;
  Cap cap{highest};
  if (!is_busy(state)) return cap;
  cap.lower(power_cap(spec, tables, state, wanted_clock(spec, state), temperature),
            EventReasons::kPowerCap);
  if (temperature > spec.slowdown_c) {
    const double share = std::max(0.0, 1 - (temperature - spec.slowdown_c) / kThermalRange);
    cap.lower(spec.gpu.min_clock.value + share * (highest - spec.gpu.min_clock.value),
              EventReasons::kSoftwareThermal);
  }
  if (state.hardware_slowdown) {
    cap.lower(kHardwareShare * highest,
              EventReasons::kHardwareThermal | EventReasons::kHardwareSlowdown);
  }
  for (const SimulatedFault& fault : spec.faults) {
    if (fault.kind != SimulatedFault::Kind::kThrottling) continue;
    if (fault.holds(state.time_ns, fault.first_call)) {
      cap.lower(fault.amount * highest, fault.reason);
    }
  }
  return cap;
}

void take_assignments(SimulatedGpuState& state) {
  int due = 0;
  while (due < state.assignments && state.order[due].at_ns <= state.time_ns) {
    const ClockOrder& order = state.order[due++];
    state.lock_in_force[order.domain == ClockDomain::kMemory ? 1 : 0] = order.lock;
  }
  std::copy(state.order + due, state.order + state.assignments, state.order);
  state.assignments -= due;
}

/// Temperature and energy as functions of time while clock and load are constant.
struct Course {
  double start = 0, settled = 0, time_constant = 0;
  double settled_power = 0, per_kelvin = 0;
  double beside = 0;  // metered power that does not heat the chip

  Course(const SimulatedGpuSpec& spec, const PowerLine& line, double temperature)
      : start(temperature),
        per_kelvin(line.per_kelvin),
        beside(spec.module_scope ? spec.module_power_w : 0) {
    const double feedback = 1 - spec.kelvin_per_watt * line.per_kelvin;
    const double at_zero = line.at(spec, 0);
    settled = (spec.ambient_c + spec.kelvin_per_watt * at_zero) / feedback;
    time_constant = spec.kelvin_per_watt * spec.joule_per_kelvin / feedback;
    settled_power = at_zero + per_kelvin * settled;
  }
  double temperature(double dt) const {
    return settled + (start - settled) * std::exp(-dt / time_constant);
  }
  double energy(double dt) const {
    return (settled_power + beside) * dt -
           per_kelvin * (start - settled) * time_constant * std::expm1(-dt / time_constant);
  }
};

/// Returns the number k of the last instant `phase + k * period` that is not after `time`.
std::int64_t grid_index(std::int64_t time, std::int64_t phase, std::int64_t period) {
  const std::int64_t from = time - phase;
  return from >= 0 ? from / period : -((-from + period - 1) / period);
}

/// Returns the time of the energy counter's step `number`: its time on the grid plus random jitter.
std::int64_t counter_step_at(const SimulatedGpuSpec& spec, std::int64_t number) {
  const std::int64_t regular = spec.counter_phase_ns + number * spec.counter_step_ns;
  if (spec.counter_jitter_ns == 0) return regular;
  return regular + static_cast<std::int64_t>(
                       static_cast<double>(spec.counter_jitter_ns) *
                       normal(mixed(spec.seed, kStepJitter, static_cast<std::uint64_t>(number))));
}

/// Returns the time of the last step in (begin_ns, end_ns]; nullopt if there is none.
std::optional<std::int64_t> counter_step_in(const SimulatedGpuSpec& spec, std::int64_t begin_ns,
                                            std::int64_t end_ns) {
  const std::int64_t most = kMostJitter * spec.counter_jitter_ns;
  std::int64_t number = grid_index(end_ns + most, spec.counter_phase_ns, spec.counter_step_ns);
  // Steps are in order: the search ends at the first step that is certainly before the interval.
  for (; spec.counter_phase_ns + number * spec.counter_step_ns + most > begin_ns; --number) {
    const std::int64_t at = counter_step_at(spec, number);
    if (at <= begin_ns) return std::nullopt;
    if (at <= end_ns) return at;
  }
  return std::nullopt;
}

/// Updates the sensors with their samples between the state's time and `end_ns`.
void take_samples(const SimulatedGpuSpec& spec, const Course& course, double busy_rate,
                  SimulatedGpuState& state, std::int64_t end_ns) {
  const std::int64_t begin_ns = state.time_ns;
  const auto energy_at = [&](std::int64_t ns) {
    return state.energy_j + course.energy(seconds(ns - begin_ns));
  };
  const std::int64_t mark = grid_index(end_ns, spec.counter_phase_ns % kMarkNs, kMarkNs);
  for (std::int64_t k = std::max(state.mark + 1, mark - kPowerMarks + 1); k <= mark; ++k) {
    const std::int64_t at = spec.counter_phase_ns % kMarkNs + k * kMarkNs;
    state.mark_energy_j[k % kPowerMarks] = energy_at(at);
    state.mark_busy_s[k % kPowerMarks] = state.busy_s + busy_rate * seconds(at - begin_ns);
  }
  state.mark = mark;
  if (const auto step_ns = counter_step_in(spec, begin_ns, end_ns)) {
    state.counter_j = energy_at(*step_ns);
  }
  const std::int64_t sample = grid_index(end_ns, spec.sensor_phase_ns, spec.sensor_period_ns);
  const std::int64_t sample_ns = spec.sensor_phase_ns + sample * spec.sensor_period_ns;
  if (sample_ns > begin_ns) {
    const std::int64_t open_ns = sample_ns - spec.sensor_window_ns;
    const double open = open_ns > begin_ns ? energy_at(open_ns) : state.window_open_j;
    state.sensed_w = (energy_at(sample_ns) - open) / seconds(spec.sensor_window_ns);
    state.sensor_sample = sample;
  }
  const std::int64_t next_open_ns = sample_ns + spec.sensor_period_ns - spec.sensor_window_ns;
  if (next_open_ns > begin_ns && next_open_ns <= end_ns) {
    state.window_open_j = energy_at(next_open_ns);
  }
}

std::int64_t next_edge(const SimulatedGpuSpec& spec, std::int64_t time) {
  std::int64_t next = SimulatedFault::kForever;
  for (const SimulatedFault& fault : spec.faults) {
    if (fault.begin_ns > time) next = std::min(next, fault.begin_ns);
    if (fault.end_ns > time) next = std::min(next, fault.end_ns);
  }
  return next;
}

/// Returns true if the controller does not change the clock until the temperature has settled.
/// `target` is the controller's present target.
bool is_steady(const SimulatedGpuSpec& spec, const WorkTable* tables,
               const SimulatedGpuState& state, const Course& course, double target) {
  if (state.cap_mhz != target) return false;
  const bool would_slow = state.hardware_slowdown
                              ? course.settled >= spec.hardware_slowdown_c - kHardwareHysteresis
                              : course.settled >= spec.hardware_slowdown_c;
  if (would_slow != state.hardware_slowdown) return false;
  if (std::abs(course.settled - state.temperature_c) < kSettledKelvin) return true;
  return wanted_cap(spec, tables, state, course.settled).clock == target;
}

/// Moves the controller's cap towards its target, by half the distance per tick or at once.
void follow(const SimulatedGpuSpec& spec, SimulatedGpuState& state, double target, bool at_once) {
  // A cap above the requested clock has no effect, so it falls from the requested clock.
  state.cap_mhz = std::min(state.cap_mhz, std::max(target, wanted_clock(spec, state)));
  const double gap = target - state.cap_mhz;
  state.cap_mhz = at_once || std::abs(gap) < kSettledMegahertz ? target : state.cap_mhz + gap / 2;
}

void watch_heat(const SimulatedGpuSpec& spec, SimulatedGpuState& state) {
  if (state.temperature_c >= spec.hardware_slowdown_c) state.hardware_slowdown = true;
  if (state.temperature_c < spec.hardware_slowdown_c - kHardwareHysteresis) {
    state.hardware_slowdown = false;
  }
}

/// Sets the clock in force. `target()` returns the controller's target; called only if needed.
template <class Target>
void run_at_cap(const SimulatedGpuSpec& spec, SimulatedGpuState& state, const Target& target) {
  const double wanted = wanted_clock(spec, state);
  if (!is_busy(state)) {
    state.clock_mhz = wanted;
    state.reasons = EventReasons::kIdle;
    return;
  }
  state.clock_mhz = std::min(wanted, state.cap_mhz);
  state.reasons = state.clock_mhz < wanted - kSettledMegahertz ? target().reasons : 0;
}

void end_streams(SimulatedGpuState& state) {
  for (SimulatedStream& stream : state.stream) {
    if (stream.phase != SimulatedStream::Phase::kRunning || stream.left > 0) continue;
    stream.phase = SimulatedStream::Phase::kDone;
    stream.end_ns = state.time_ns;
  }
}

/// Advances the state to `limit_ns` or to the next change, whichever is first.
void advance_once(const SimulatedGpuSpec& spec, const WorkTable* tables, SimulatedGpuState& state,
                  std::int64_t limit_ns, std::int64_t control_ns) {
  for (const SimulatedFault& fault : spec.faults) {
    if (fault.kind == SimulatedFault::Kind::kCounterReset && fault.begin_ns == state.time_ns) {
      state.counter_base_j = state.counter_j = state.energy_j;
    }
  }
  take_assignments(state);
  const bool ticks = state.time_ns % kControlNs == 0 || control_ns != kControlNs;
  if (ticks) watch_heat(spec, state);
  const Cap target = wanted_cap(spec, tables, state, state.temperature_c);
  if (ticks) follow(spec, state, target.clock, control_ns != kControlNs);
  run_at_cap(spec, state, [&] { return target; });
  const double clock = state.clock_mhz, wanted = wanted_clock(spec, state);
  const Course course(spec, power_line(spec, tables, state, clock), state.temperature_c);

  std::int64_t end = std::min(limit_ns, next_edge(spec, state.time_ns));
  if (!is_steady(spec, tables, state, course, target.clock)) {
    end = std::min(end, (state.time_ns / control_ns + 1) * control_ns);
  }
  if (state.assignments > 0) end = std::min(end, state.order[0].at_ns);
  const int running = running_streams(state);
  double whole[kMaxStreams] = {};
  for (int i = 0; i < kMaxStreams; ++i) {
    const SimulatedStream& stream = state.stream[i];
    if (stream.phase != SimulatedStream::Phase::kRunning) continue;
    whole[i] = work_seconds(spec, tables[i], state, clock, wanted) * running;
    const double ns = std::ceil(std::max(stream.left, 0.0) * whole[i] * 1e9);
    if (ns < static_cast<double>(end - state.time_ns)) {
      end = state.time_ns + std::max<std::int64_t>(1, static_cast<std::int64_t>(ns));
    }
  }

  const double busy_rate = running > 0 ? 1 : std::min(1.0, state.load);
  take_samples(spec, course, busy_rate, state, end);
  const double dt = seconds(end - state.time_ns);
  state.energy_j += course.energy(dt);
  state.temperature_c = course.temperature(dt);
  state.busy_s += busy_rate * dt;
  state.time_ns = end;
  for (int i = 0; i < kMaxStreams; ++i) {
    SimulatedStream& stream = state.stream[i];
    if (stream.phase != SimulatedStream::Phase::kRunning) continue;
    stream.left -= dt / whole[i];
    if (stream.left * whole[i] < 0.5e-9) stream.left = 0;
  }
  end_streams(state);
}

enum SwitchPurpose : std::uint64_t { kSlowTarget = 11, kTargetSpread, kSlowPair, kSwitch };

constexpr std::uint64_t kSensorNoise = 1;

std::size_t slot(std::int64_t mark) {
  return static_cast<std::size_t>((mark % kPowerMarks + kPowerMarks) % kPowerMarks);
}

}  // namespace

SimulatedGpuState initial_state(const SimulatedGpuSpec& spec) {
  SimulatedGpuState state;
  state.limit_w = spec.gpu.power_limit.value;
  state.cap_mhz = spec.gpu.max_clock.value;
  const PowerLine idle{spec.idle_power_w, spec.idle_power_w * spec.leakage};
  state.temperature_c = Course(spec, idle, spec.ambient_c).settled;
  const double power =
      idle.at(spec, state.temperature_c) + (spec.module_scope ? spec.module_power_w : 0);
  const std::int64_t phase = spec.counter_phase_ns % kMarkNs;
  for (std::int64_t k = 1; k <= kPowerMarks; ++k) {
    // The GPU was also idle in the second before the start.
    state.mark_energy_j[kPowerMarks - k] = power * seconds(phase - k * kMarkNs);
  }
  state.sensed_w = power;
  state.window_open_j =
      power * seconds(spec.sensor_phase_ns - spec.sensor_window_ns);  // if before the start
  settle(spec, nullptr, state);
  return state;
}

void settle(const SimulatedGpuSpec& spec, const WorkTable* tables, SimulatedGpuState& state) {
  take_assignments(state);
  run_at_cap(spec, state, [&] { return wanted_cap(spec, tables, state, state.temperature_c); });
}

void advance(const SimulatedGpuSpec& spec, const WorkTable* tables, SimulatedGpuState& state,
             std::int64_t now_ns) {
  const std::int64_t gap = now_ns - state.time_ns;
  const std::int64_t control_ns = gap > kLongGapNs ? gap / kMostSteps : kControlNs;
  while (state.time_ns < now_ns) advance_once(spec, tables, state, now_ns, control_ns);
  settle(spec, tables, state);
}

std::int64_t predicted_end(const SimulatedGpuSpec& spec, const WorkTable* tables,
                           SimulatedGpuState state, int stream, std::int64_t horizon_ns) {
  while (state.time_ns < horizon_ns &&
         state.stream[stream].phase == SimulatedStream::Phase::kRunning) {
    advance_once(spec, tables, state, horizon_ns, kControlNs);
  }
  return state.stream[stream].phase == SimulatedStream::Phase::kDone ? state.stream[stream].end_ns
                                                                     : horizon_ns;
}

double true_power(const SimulatedGpuSpec& spec, const WorkTable* tables,
                  const SimulatedGpuState& state) {
  return power_line(spec, tables, state, state.clock_mhz).at(spec, state.temperature_c) +
         (spec.module_scope ? spec.module_power_w : 0);
}

double median_switch_latency(const SimulatedGpuSpec& spec, int from_mhz, int to_mhz) {
  const SwitchLatency& latency = spec.latency;
  const auto to = static_cast<std::uint64_t>(to_mhz);
  const std::uint64_t pair = (static_cast<std::uint64_t>(from_mhz) << 32) | to;
  double median =
      latency.typical_s * std::exp(latency.spread * normal(mixed(spec.seed, kTargetSpread, to)));
  if (uniform(mixed(spec.seed, kSlowTarget, to)) < latency.slow_target_share) {
    median *= latency.slow_target_factor;
  }
  if (uniform(mixed(spec.seed, kSlowPair, pair)) < latency.slow_pair_share) {
    median += latency.slow_pair_s;
  }
  return median;
}

void order_clocks(const SimulatedGpuSpec& spec, SimulatedGpuState& state, ClockDomain domain,
                  SimulatedClockLock lock) {
  const int d = domain == ClockDomain::kMemory ? 1 : 0;
  if (lock == state.lock_asked[d]) return;
  const int highest =
      d == 1 ? spec.memory_clocks.back() : static_cast<int>(spec.gpu.max_clock.value);
  const auto top = [&](const SimulatedClockLock& l) { return l.on ? l.highest : highest; };
  const double median = median_switch_latency(spec, top(state.lock_asked[d]), top(lock));
  const double spread =
      spec.latency.spread / 2 * normal(mixed(spec.seed, kSwitch, state.switches++));
  state.lock_asked[d] = lock;
  // The chip executes orders one after the other; if too many wait, the last is replaced.
  if (state.assignments == kMaxClockOrders) --state.assignments;
  std::int64_t at = state.time_ns + static_cast<std::int64_t>(median * std::exp(spread) * 1e9);
  if (state.assignments > 0) at = std::max(at, state.order[state.assignments - 1].at_ns);
  state.order[state.assignments++] = {at, domain, lock};
}

double visible_energy(const SimulatedGpuSpec& spec, const SimulatedGpuState& state) {
  double energy = spec.gain * (state.counter_j - state.counter_base_j);
  for (const SimulatedFault& fault : spec.faults) {
    if (fault.kind == SimulatedFault::Kind::kCounterWrap &&
        fault.holds(state.time_ns, state.calls)) {
      energy = std::fmod(energy, fault.amount);
    }
  }
  return std::floor(energy * 1000) / 1000;  // the counter counts millijoules
}

double visible_average_power(const SimulatedGpuSpec& spec, const SimulatedGpuState& state) {
  const double energy =
      state.mark_energy_j[slot(state.mark)] - state.mark_energy_j[slot(state.mark + 1)];
  return spec.gain * energy / (static_cast<double>((kPowerMarks - 1) * kMarkNs) * 1e-9);
}

double visible_instant_power(const SimulatedGpuSpec& spec, const SimulatedGpuState& state) {
  const auto sample = static_cast<std::uint64_t>(state.sensor_sample);
  return spec.gain * state.sensed_w *
         (1 + spec.noise * normal(mixed(spec.seed, kSensorNoise, sample)));
}

int visible_clock(const SimulatedGpuSpec& spec, const SimulatedGpuState& state,
                  ClockDomain domain) {
  if (domain == ClockDomain::kMemory) {
    return state.lock_in_force[1].on ? state.lock_in_force[1].highest : spec.memory_clocks.back();
  }
  const int above = static_cast<int>(state.clock_mhz + 1e-6) - spec.gpu.min_clock.value;
  return spec.gpu.min_clock.value + above / spec.gpu.clock_step * spec.gpu.clock_step;
}

double visible_utilisation(const SimulatedGpuState& state) {
  const double busy = state.mark_busy_s[slot(state.mark)] - state.mark_busy_s[slot(state.mark + 1)];
  return std::clamp(busy / (static_cast<double>((kPowerMarks - 1) * kMarkNs) * 1e-9), 0.0, 1.0);
}

double enforced_limit(const SimulatedGpuSpec& spec, const SimulatedGpuState& state) {
  return std::min(state.limit_w, spec.other_limit_w);
}

std::vector<int> supported_clocks(const SimulatedGpuSpec& spec, ClockDomain domain) {
  if (domain == ClockDomain::kMemory) return spec.memory_clocks;
  std::vector<int> clocks;
  for (int clock = spec.gpu.min_clock.value; clock <= spec.gpu.max_clock.value;
       clock += spec.gpu.clock_step) {
    clocks.push_back(clock);
  }
  return clocks;
}

}  // namespace harpe::device
