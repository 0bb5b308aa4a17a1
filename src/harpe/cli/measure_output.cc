#include "harpe/cli/measure_output.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/cli/table.h"

namespace harpe {
namespace {

constexpr double kSensorsAgree = 0.1;      // beyond which their disagreement is told
constexpr Seconds kTimeToCompare{5};       // in shorter windows the comparison says little
constexpr double kHoleTold = 0.02;         // share of the time without samples that is told
constexpr double kThrottlingTold = 0.001;  // share of the looks

bool told(const DeviceEnergy& device) {
  return device.energy.source != EnergySource::kNone;
}

/// Digits after the point that leave two of the error.
int decimals_of(double error) {
  if (error <= 0) return 1;
  return std::clamp(1 - static_cast<int>(std::floor(std::log10(error))), 0, 3);
}

std::string percent(double share) {
  return fixed(100 * share, share < 0.1 ? 1 : 0) + " %";
}

void add_once(std::vector<std::string>& lines, const std::string& line) {
  if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
}

void remark_on(const DeviceEnergy& device, std::vector<std::string>& lines) {
  const EnergyEstimate& energy = device.energy;
  const std::string label = device.label();
  if (device.fault) {
    add_once(lines, label + (told(device) ? ": only until it failed: " : " was not measured: ") +
                        device.fault->text());
  } else if (device.failed_reads > 0) {
    lines.push_back(label + ": " + std::to_string(device.failed_reads) + " readings failed");
  }
  if (!told(device)) return;
  if (energy.time.value > 0 && energy.unobserved.value > kHoleTold * energy.time.value) {
    lines.push_back(label + ": nothing was read for " + seconds_text(energy.unobserved.value) +
                    " (machine suspended, or the driver did not answer)");
  }
  if (energy.restarts > 0) {
    lines.push_back(label + ": its counter started over " + std::to_string(energy.restarts) +
                    (energy.restarts == 1 ? " time" : " times") + "; bridged by sampled power");
  }
  if (energy.time > kTimeToCompare && energy.counter_per_power &&
      std::abs(*energy.counter_per_power - 1) > kSensorsAgree) {
    lines.push_back(label + ": its counter and its power sensor disagree: " +
                    fixed(*energy.counter_per_power, 2) + " J counted for each 1 J of power");
  }
  if (device.reasons.throttled() && device.throttled_share > kThrottlingTold) {
    lines.push_back(label + ": held back for " + percent(device.throttled_share) +
                    " of the time (" + device.reasons.text() + ")");
  }
  if (device.whole_module) {
    lines.push_back(label + ": includes the CPU and the memory of its module");
  }
}

}  // namespace

std::string energy_text(const EnergyEstimate& energy) {
  const int decimals = decimals_of(energy.error.value);
  return grouped(energy.energy.value, decimals) + " ± " + grouped(energy.error.value, decimals) +
         " J";
}

std::string energy_table(const WindowEnergy& window, bool coloured) {
  Table table{.rows = {{"device", "name", "energy (95 %)", "mean", "source"}}};
  table.left = 2;
  int rows = 0;
  for (const DeviceEnergy& device : window.devices) {
    if (!told(device)) continue;
    rows += 1;
    table.rows.push_back({device.label(), device.name, energy_text(device.energy),
                          fixed(device.energy.mean_power().value, 1) + " W",
                          std::string(source_name(device.energy.source))});
  }
  if (rows > 1) {
    const EnergyEstimate total = window.total();
    table.rows.push_back(
        {"total", "", energy_text(total), fixed(total.mean_power().value, 1) + " W", ""});
    table.marked = static_cast<int>(table.rows.size()) - 1;
  }
  return rows == 0 ? "" : table.text(coloured);
}

std::vector<std::string> energy_remarks(const WindowEnergy& window) {
  std::vector<std::string> lines;
  for (const DeviceEnergy& device : window.devices) remark_on(device, lines);
  const EnergyEstimate total = window.total();
  if (total.source != EnergySource::kNone) {
    lines.push_back("± is the error of this measurement; the sensors themselves may be off by " +
                    percent(total.sensor_error / total.energy) + " (" +
                    grouped(total.sensor_error.value, 0) +
                    " J) more: see docs/measuring.md. Idle power is included.");
  }
  return lines;
}

Json estimate_json(const EnergyEstimate& energy) {
  if (energy.source == EnergySource::kNone) return {};
  Json result = {{"energy_j", energy.energy.value},
                 {"error_j", energy.error.value},
                 {"sensor_error_j", energy.sensor_error.value},
                 {"mean_power_w", energy.mean_power().value},
                 {"source", source_name(energy.source)},
                 {"unobserved_s", energy.unobserved.value},
                 {"counter_restarts", energy.restarts}};
  result["counter_per_power"] = energy.counter_per_power ? Json(*energy.counter_per_power) : Json();
  return result;
}

Json energy_json(const WindowEnergy& window) {
  Json devices = Json::array();
  for (const DeviceEnergy& device : window.devices) {
    const char* kind = device.kind == DeviceEnergy::Kind::kGpu   ? "gpu"
                       : device.kind == DeviceEnergy::Kind::kCpu ? "cpu"
                                                                 : "dram";
    Json entry = {{"kind", kind}, {"index", device.index}, {"name", device.name}};
    if (device.kind == DeviceEnergy::Kind::kGpu) {
      entry["uuid"] = device.uuid;
      entry["throttled_share"] = device.throttled_share;
      entry["event_reasons"] = device.reasons.text();
      entry["whole_module"] = device.whole_module;
    }
    entry["measured"] = estimate_json(device.energy);
    entry["failed_reads"] = device.failed_reads;
    entry["fault"] = device.fault ? Json(device.fault->text()) : Json();
    devices.push_back(std::move(entry));
  }
  return {{"started_at", window.started_at},
          {"time_s", window.time.value},
          {"devices", std::move(devices)},
          {"total", estimate_json(window.total())}};
}

bool any_simulated(const ChosenDevices& devices) {
  return std::ranges::any_of(devices.gpus, [&](int gpu) {
    return devices.devices.gpus[static_cast<std::size_t>(gpu)]->identity().backend == "sim";
  });
}

}  // namespace harpe
