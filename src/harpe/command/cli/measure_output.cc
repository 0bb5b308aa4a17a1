#include "harpe/command/cli/measure_output.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/command/text_layout.h"

namespace harpe::command {
namespace {

constexpr double kSensorsAgree = 0.1;      // largest disagreement that is not reported
constexpr Seconds kTimeToCompare{5};       // shorter windows allow no comparison
constexpr double kHoleSaid = 0.02;         // reported share of the time without samples
constexpr double kThrottlingTold = 0.001;  // reported share of the looks

bool has_energy(const DeviceEnergy& device) {
  return device.energy.source != EnergySource::kNone;
}

/// Returns the number of decimals that leaves two digits of the error.
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
  if (device.error) {
    add_once(
        lines,
        label + (has_energy(device) ? ": measured only until it failed: " : " was not measured: ") +
            device.error->text());
  } else if (device.failed_reads > 0) {
    lines.push_back(label + ": " + std::to_string(device.failed_reads) + " readings failed");
  }
  if (!has_energy(device)) return;
  if (energy.time.value > 0 && energy.unobserved.value > kHoleSaid * energy.time.value) {
    lines.push_back(label + ": no reading for " + seconds_text(energy.unobserved.value) +
                    " (machine suspended, or the driver did not answer)");
  }
  if (energy.restarts > 0) {
    lines.push_back(label + ": its counter restarted " +
                    counted(static_cast<std::size_t>(energy.restarts), "time") +
                    "; sampled power fills the gap");
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

Json estimate_json(const EnergyEstimate& energy) {
  if (energy.source == EnergySource::kNone) return {};
  Json result = {
      {"energy_j", energy.energy.value},
      {"error_j", error_known(energy) ? Json(energy.error.value) : Json()},
      {"sensor_error_j", energy.sensor_error.value},
      {"mean_power_w", energy.missing.value > 0 ? Json() : Json(energy.mean_power().value)},
      {"source", source_name(energy.source)},
      {"unobserved_s", energy.unobserved.value},
      {"missing_s", energy.missing.value},
      {"counter_restarts", energy.restarts}};
  result["counter_per_power"] = energy.counter_per_power ? Json(*energy.counter_per_power) : Json();
  return result;
}

}  // namespace

std::string energy_text(const EnergyEstimate& energy) {
  const double error = energy.error.value;
  const bool small = std::max(std::abs(energy.energy.value), error) < 1;
  const double scale = small ? 1000 : 1;
  const char* unit = small ? " mJ" : " J";
  if (energy.missing.value > 0) return "at least " + joules_text(energy.energy);
  if (!error_known(energy)) return grouped(energy.energy.value * scale, 1) + " ± ?" + unit;
  const int decimals = decimals_of(error * scale);
  return grouped(energy.energy.value * scale, decimals) + " ± " + grouped(error * scale, decimals) +
         unit;
}

std::string joules_text(Joules energy) {
  const double size = std::abs(energy.value);
  if (size < 1) return grouped(energy.value * 1000, size < 0.01 ? 2 : 0) + " mJ";
  return grouped(energy.value, size < 100 ? 1 : 0) + " J";
}

std::string short_device_name(const std::string& name) {
  for (const std::string_view vendor : {"NVIDIA ", "AMD "}) {
    if (name.starts_with(vendor)) return name.substr(vendor.size());
  }
  return name;
}

std::string energy_table(const WindowEnergy& window, int columns, bool coloured) {
  Table table{
      .columns = {{.heading = "device", .align = Align::kLeft},
                  {.heading = "name", .align = Align::kLeft, .rank = 1, .narrowest = 8},
                  {.heading = "energy (95 %)"},
                  {.heading = "mean"},
                  {.heading = "source", .align = Align::kLeft, .rank = 2, .narrowest = 10}}};
  const auto add = [&](const std::string& label, const std::string& name,
                       const EnergyEstimate& energy, std::string_view source, bool bold) {
    table.add({label, columns > 0 ? short_device_name(name) : name, energy_text(energy),
               error_known(energy) ? fixed(energy.mean_power().value, 1) + " W" : "-",
               std::string(source)},
              bold);
  };
  for (const DeviceEnergy& device : window.devices) {
    if (!has_energy(device)) continue;
    add(device.label(), device.name, device.energy, source_name(device.energy.source), false);
  }
  if (table.rows.size() > 1) add("total", "", total_of(window), "", true);
  return table.rows.empty() ? "" : table.text(coloured, columns);
}

std::vector<std::string> energy_remarks(const WindowEnergy& window) {
  std::vector<std::string> lines;
  for (const DeviceEnergy& device : window.devices) remark_on(device, lines);
  const EnergyEstimate total = total_of(window);
  if (total.source != EnergySource::kNone) {
    const std::string share = total.energy.value > 0
                                  ? percent(total.sensor_error / total.energy) + " (" +
                                        joules_text(total.sensor_error) + ") more"
                                  : "more";
    lines.push_back("± is the error of this measurement; the sensors themselves may be off by " +
                    share + ": see docs/measuring.md. Idle power is included.");
  }
  return lines;
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
    entry["error"] = device.error ? Json(device.error->text()) : Json();
    devices.push_back(std::move(entry));
  }
  return {{"started_at", window.started_at},
          {"time_s", window.time.value},
          {"devices", std::move(devices)},
          {"total", estimate_json(total_of(window))}};
}

bool any_simulated(const ChosenDevices& devices) {
  return std::ranges::any_of(devices.chosen_gpus(),
                             [](Gpu* gpu) { return gpu->identity().backend == "sim"; });
}

}  // namespace harpe::command
