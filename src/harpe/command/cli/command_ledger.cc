#include "harpe/command/cli/command_ledger.h"

#include <algorithm>
#include <cmath>

#include "harpe/command/cli/measure_output.h"

namespace harpe::command {
namespace {

/// Devices that are held, and of those the ones whose energy is known.
struct HeldDevices {
  double all = 0, measured = 0;
};

HeldDevices held_devices(const WindowEnergy& window) {
  HeldDevices held;
  for (const DeviceEnergy& device : window.devices) {
    if (device.kind != DeviceEnergy::Kind::kGpu) continue;
    held.all += 1;
    const bool none = device.energy.source == EnergySource::kNone;
    const double missing = window.time.value > 0 ? device.energy.missing / window.time : 0;
    held.measured += none ? 0 : 1 - std::clamp(missing, 0.0, 1.0);
  }
  return held;
}

}  // namespace

EnergySoFar energy_so_far(const WindowEnergy& window) {
  const EnergyEstimate total = total_of(window);
  const Joules gpus = window.sum(DeviceEnergy::Kind::kGpu);
  return {.after = window.time,
          .energy = total.energy,
          .host = {std::max(0.0, (total.energy - gpus).value)}};
}

double next_boundary(double time, carbon::WholeSeconds step) {
  const auto seconds = static_cast<double>(step.count());
  return (std::floor(time / seconds) + 1) * seconds;
}

carbon::EnergyLedger command_ledger(const std::vector<EnergySoFar>& readings,
                                    const WindowEnergy& whole, carbon::WholeSeconds step) {
  carbon::EnergyLedger ledger(step);
  const EnergyEstimate total = total_of(whole);
  const HeldDevices held = held_devices(whole);
  std::vector<EnergySoFar> marks = readings;
  marks.push_back(energy_so_far(whole));
  // From the end: nothing is more than what came after it.
  for (std::size_t i = marks.size() - 1; i-- > 0;) {
    marks[i].after = std::min(marks[i].after, marks[i + 1].after);
    marks[i].energy = std::min(marks[i].energy, marks[i + 1].energy);
    marks[i].host = std::min(marks[i].host, marks[i + 1].host);
  }
  const double share_of_square = total.error.value * total.error.value;
  EnergySoFar before;
  for (const EnergySoFar& mark : marks) {
    carbon::EnergyUse use{.energy = mark.energy - before.energy, .host = mark.host - before.host};
    const Seconds time = mark.after - before.after;
    const double share = total.energy.value > 0 ? use.energy / total.energy : 0;
    use.host = std::min(use.host, use.energy);
    if (error_known(total)) use.variance = share * share_of_square;
    if (!error_known(total)) use.without_error = use.energy;
    use.sensor_error = share * total.sensor_error;
    use.device_time = held.all * time;
    use.measured = held.measured * time;
    // What a clock before 1970 makes impossible is in the window's own figures.
    (void)ledger.add(whole.started_at + before.after.value, whole.started_at + mark.after.value,
                     use);
    before = mark;
  }
  return ledger;
}

}  // namespace harpe::command
