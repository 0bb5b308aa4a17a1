#include "harpe/cli/monitor_view.h"

#include <algorithm>

#include "harpe/base/text.h"
#include "harpe/cli/measure_output.h"
#include "harpe/measure/energy_log.h"
#include "harpe/plan_cli/fitted_table.h"
#include "harpe/plan_cli/table.h"

namespace harpe {

const char* const kMonitorCsvHeading =
    "time_s,device,name,power_w,energy_j,energy_error_j,source,clock_mhz,memory_clock_mhz,"
    "temperature_c,utilisation,power_limit_w,event_reasons\n";

namespace {

constexpr int kWrappedFault = 100;  // columns, where the terminal does not say how wide it is

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

/// What stands in place of the power of a device that failed.
std::string fault_word(const Error& error) {
  return error.code == ErrorCode::kUnavailable ? "LOST" : "FAULT";
}

/// In the order of the columns of `monitor_view`.
std::vector<std::string> cells_of(const Look& look, std::size_t i) {
  const DeviceEnergy& device = look.window.devices[i];
  const bool is_gpu = i < look.gpus.size();
  GpuView gpu;
  if (is_gpu) {
    gpu = look.gpus[i];
  } else {
    gpu.power = look.mean[i];
  }
  std::optional<double> busy = gpu.utilisation;
  if (busy) *busy *= 100;
  std::vector<std::string> cells = {device.label(),
                                    short_device_name(device.name),
                                    device.error ? fault_word(*device.error) : watts(gpu.power, 1),
                                    watts(gpu.limit, 0),
                                    energy_or_dash(device.energy),
                                    megahertz(gpu.clock),
                                    megahertz(gpu.memory_clock),
                                    number(gpu.temperature, 0),
                                    number(busy, 0),
                                    gpu.reasons && !device.error ? gpu.reasons->text() : ""};
  if (!is_gpu) {  // has none of them, which is other than that they could not be read
    for (const std::size_t absent : {3, 5, 6, 7, 8}) cells[absent].clear();
  }
  return cells;
}

}  // namespace

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

std::string monitor_view(const Look& look, int columns, int lines, bool coloured) {
  FittedTable table{
      .columns = {{.heading = "device", .left = true},
                  {.heading = "name", .left = true, .rank = 6, .narrowest = 10},
                  {.heading = "power W"},
                  {.heading = "limit W", .rank = 8},
                  {.heading = "since start", .rank = 2},
                  {.heading = "MHz", .rank = 3},
                  {.heading = "mem MHz", .rank = 9},
                  {.heading = "C", .rank = 7},
                  {.heading = "busy %", .rank = 4},
                  {.heading = "held back by", .left = true, .rank = 5, .narrowest = 12}}};
  const std::vector<DeviceEnergy>& devices = look.window.devices;
  std::string errors;
  for (const DeviceEnergy& device : devices) {
    if (!device.error) continue;
    const std::string what = device.error->text();  // most begin with the GPU's name
    const bool named = what.starts_with(device.label() + " ");
    errors += wrapped_text(named ? what : device.label() + ": " + what,
                           columns > 0 ? columns : kWrappedFault);
  }
  std::size_t shown = devices.size();
  if (lines > 0) {
    const auto taken = 1 + std::ranges::count(errors, '\n');  // the heading, too
    const auto room = static_cast<std::size_t>(std::max<std::ptrdiff_t>(2, lines - taken));
    if (shown > room) shown = room - 1;
  }
  for (std::size_t i = 0; i < shown; ++i) {
    const std::vector<std::string> cells = cells_of(look, i);
    for (std::size_t c = 0; c < cells.size(); ++c) table.columns[c].cells.push_back(cells[c]);
  }
  std::string text = table.text(columns, coloured);
  if (shown < devices.size()) {
    const std::string more =
        "and " + std::to_string(devices.size() - shown) + " more (--gpus LIST)";
    text += (columns > 0 ? cut_to(more, static_cast<std::size_t>(columns)) : more) + "\n";
  }
  return text + errors;
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
    const std::optional<Watts> power =
        i < look.gpus.size() && look.gpus[i].power ? look.gpus[i].power : look.mean[i];
    text += " " + watts(power, 1) + " W";
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
    const std::optional<Watts> power =
        view.power || (is_gpu && device.error) ? view.power : look.mean[i];
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

}  // namespace harpe
