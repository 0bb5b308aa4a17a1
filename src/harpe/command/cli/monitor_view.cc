#include "harpe/command/cli/monitor_view.h"

#include <algorithm>

#include "harpe/base/csv.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/measure_output.h"

namespace harpe::command {

const char* const kMonitorCsvHeading =
    "time_s,device,name,power_w,energy_j,energy_error_j,source,clock_mhz,memory_clock_mhz,"
    "temperature_c,utilisation,power_limit_w,event_reasons\n";

namespace {

std::string number(const std::optional<double>& value, int decimals) {
  return value ? fixed(*value, decimals) : "-";
}
std::string watts(const std::optional<Watts>& power, int decimals) {
  return power ? fixed(power->value, decimals) : "-";
}
std::string megahertz(const std::optional<Megahertz>& clock) {
  return clock ? std::to_string(clock->value) : "-";
}
std::string energy_or_dash(const EnergyEstimate& energy) {
  return energy.source == EnergySource::kNone ? "-" : energy_text(energy);
}

}  // namespace

std::string fault_word(const Error& error) {
  return error.code == ErrorCode::kUnavailable ? "LOST" : "FAULT";
}

std::optional<Watts> power_now(const Look& look, std::size_t device) {
  const bool is_sensed = device < look.gpus.size() && look.gpus[device].power;
  return is_sensed ? look.gpus[device].power : look.mean[device];
}

GpuView view_of(Gpu& gpu) {
  GpuView view;
  view.power = value_of(gpu.instant_power());
  if (!view.power) view.power = value_of(gpu.average_power());
  view.limit = value_of(gpu.enforced_power_limit());
  if (!view.limit) view.limit = value_of(gpu.power_limit());
  view.clock = value_of(gpu.clock(ClockDomain::kGraphics));
  view.memory_clock = value_of(gpu.clock(ClockDomain::kMemory));
  view.temperature = value_of(gpu.temperature());
  view.utilisation = value_of(gpu.utilisation());
  view.reasons = value_of(gpu.event_reasons());
  return view;
}

std::string monitor_line(const Look& look, const std::string& time_of_day) {
  std::string text = time_of_day;
  for (std::size_t i = 0; i < look.window.devices.size(); ++i) {
    const DeviceEnergy& device = look.window.devices[i];
    text += "  " + device.label();
    if (device.error) {
      text += " " + fault_word(*device.error);
      continue;
    }
    text += " " + watts(power_now(look, i), 1) + " W";
    if (i < look.gpus.size()) text += " " + megahertz(look.gpus[i].clock) + " MHz";
  }
  return text + "  total " + energy_or_dash(total_of(look.window)) + "\n";
}

std::string monitor_csv(const Look& look) {
  std::string text;
  for (std::size_t i = 0; i < look.window.devices.size(); ++i) {
    const DeviceEnergy& device = look.window.devices[i];
    const bool is_gpu = i < look.gpus.size();
    const GpuView view = is_gpu ? look.gpus[i] : GpuView{};
    const auto cell = [](const std::string& value) { return value == "-" ? "" : value; };
    const bool has_energy = device.energy.source != EnergySource::kNone;
    const std::optional<Watts> power = is_gpu && device.error ? view.power : power_now(look, i);
    text += fixed(look.window.time.value, 6) + "," + device.label() + "," + csv_cell(device.name) +
            "," + cell(watts(power, 3)) + "," +
            (has_energy ? fixed(device.energy.energy.value, 6) : "") + "," +
            (error_known(device.energy) ? fixed(device.energy.error.value, 6) : "") + "," +
            csv_cell(std::string(source_name(device.energy.source))) + "," +
            cell(megahertz(view.clock)) + "," + cell(megahertz(view.memory_clock)) + "," +
            cell(number(view.temperature, 1)) + "," + cell(number(view.utilisation, 3)) + "," +
            cell(watts(view.limit, 1)) + "," +
            (view.reasons && view.reasons->bits != 0 ? csv_cell(view.reasons->text()) : "") + "\n";
  }
  return text;
}

Json monitor_json(const Look& look, bool simulated) {
  Json document = energy_json(look.window);
  document["simulated"] = simulated;
  const auto or_null = [](const auto& value) { return value ? Json(value->value) : Json(); };
  for (std::size_t i = 0; i < look.window.devices.size(); ++i) {
    Json& entry = document["devices"][i];
    entry["power_w"] = or_null(look.mean[i]);
    entry["mean_power_since_last_w"] = or_null(look.mean[i]);
    if (i >= look.gpus.size()) continue;
    const GpuView& gpu = look.gpus[i];
    entry["power_w"] = or_null(gpu.power);
    entry["power_limit_w"] = or_null(gpu.limit);
    entry["clock_mhz"] = or_null(gpu.clock);
    entry["memory_clock_mhz"] = or_null(gpu.memory_clock);
    entry["temperature_c"] = gpu.temperature ? Json(*gpu.temperature) : Json();
    entry["utilisation"] = gpu.utilisation ? Json(*gpu.utilisation) : Json();
    entry["event_reasons_now"] = gpu.reasons ? Json(gpu.reasons->text()) : Json();
  }
  return document;
}

}  // namespace harpe::command
