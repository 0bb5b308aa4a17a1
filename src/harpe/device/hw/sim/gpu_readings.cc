// What the sensors and the driver make of the state.
#include <algorithm>
#include <cmath>

#include "harpe/base/hashed_random.h"
#include "harpe/device/hw/sim/gpu_state.h"

namespace harpe {
namespace {

constexpr std::uint64_t kSensorNoise = 1;

std::size_t slot(std::int64_t mark) {
  return static_cast<std::size_t>((mark % kPowerMarks + kPowerMarks) % kPowerMarks);
}

}  // namespace

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

}  // namespace harpe
