// Locks on their way to the chip.
#include <algorithm>
#include <cmath>

#include "harpe/base/hashed_random.h"
#include "harpe/device/hw/sim/gpu_state.h"

namespace harpe {
namespace {

enum SwitchPurpose : std::uint64_t { kSlowTarget = 11, kTargetSpread, kSlowPair, kSwitch };

}  // namespace

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
  // The chip takes assignments one after the other; when too many wait, the last gives way.
  if (state.assignments == kMaxClockOrders) --state.assignments;
  std::int64_t at = state.time_ns + static_cast<std::int64_t>(median * std::exp(spread) * 1e9);
  if (state.assignments > 0) at = std::max(at, state.order[state.assignments - 1].at_ns);
  state.order[state.assignments++] = {at, domain, lock};
}

}  // namespace harpe
