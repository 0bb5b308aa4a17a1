#include <algorithm>
#include <utility>

#include "harpe/command/cli/device_view.h"

namespace harpe::command {
namespace {

Json number(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}
template <class Unit>
Json number(const std::optional<Unit>& value) {
  return value ? Json(value->value) : Json();
}

Json clocks_json(const std::optional<Megahertz>& now,
                 const std::optional<std::vector<Megahertz>>& clocks) {
  Json list;
  if (clocks) {
    list = Json::array();
    for (const Megahertz clock : *clocks) list.push_back(clock.value);
  }
  return {{"now_mhz", number(now)}, {"supported_mhz", std::move(list)}};
}

Json allowed_json(const Status& status) {
  return {{"allowed", status.ok()},
          {"why_not", status.ok() ? Json() : Json(status.error().text())}};
}

Json gpu_json(const DeviceView& gpu) {
  Json limit{{"set_w", number(gpu.limit)}, {"enforced_w", number(gpu.enforced_limit)}};
  if (gpu.limit_range) {
    limit["lowest_w"] = gpu.limit_range->lowest.value;
    limit["highest_w"] = gpu.limit_range->highest.value;
    limit["factory_w"] = gpu.limit_range->factory.value;
  }
  Json may_set = Json::object();
  for (const DeviceControl& control : gpu.controls) {
    std::string key = control.name;
    std::ranges::replace(key, ' ', '_');
    may_set[key] = allowed_json(control.allowed);
  }
  const GpuIdentity& identity = gpu.identity;
  return {{"index", identity.index},
          {"name", identity.name},
          {"uuid", identity.uuid},
          {"pci", identity.pci},
          {"backend", identity.backend},
          {"mig", identity.is_mig},
          {"chosen", gpu.chosen},
          {"state", gpu.hangs  ? "no_response"
                    : gpu.lost ? "lost"
                               : "ok"},
          {"error", gpu.lost ? Json(gpu.lost->text()) : Json()},
          {"graphics_clock", clocks_json(gpu.graphics_clock, gpu.graphics_clocks)},
          {"memory_clock", clocks_json(gpu.memory_clock, gpu.memory_clocks)},
          {"power",
           {{"instant_w", number(gpu.instant_power)},
            {"average_w", number(gpu.average_power)},
            {"scope", gpu.scope == PowerScope::kModule ? "module" : "gpu"}}},
          {"power_limit", std::move(limit)},
          {"energy_counter_j", number(gpu.energy)},
          {"temperature_c", number(gpu.temperature)},
          {"utilisation", number(gpu.utilisation)},
          {"event_reasons", gpu.reasons ? Json(gpu.reasons->text()) : Json()},
          {"persistence_mode", gpu.persistence_mode ? Json(*gpu.persistence_mode) : Json()},
          {"may_set", std::move(may_set)}};
}

}  // namespace

Json devices_json(const Devices& devices, const std::vector<DeviceView>& gpus,
                  const Result<device::GpuChoice>& visible) {
  Json gpu_list = Json::array();
  for (const DeviceView& gpu : gpus) gpu_list.push_back(gpu_json(gpu));
  Json cpu_list = Json::array();
  for (const auto& cpu : devices.cpus) {
    const Result<CpuEnergy> energy = cpu->total_energy();
    cpu_list.push_back({{"index", cpu->index()},
                        {"name", cpu->name()},
                        {"memory", cpu->has_dram()},
                        {"readable", energy.ok()},
                        {"why_not", energy.ok() ? Json() : Json(energy.error().text())}});
  }
  Json backends = Json::array();
  for (const BackendState& backend : devices.backends) {
    backends.push_back(
        {{"name", backend.name}, {"available", backend.available}, {"detail", backend.detail}});
  }
  Json notes = Json::array();
  if (visible.ok()) {
    for (const std::string& note : visible->notes) notes.push_back(note);
  } else {
    notes.push_back(visible.error().text());
  }
  return {{"gpus", std::move(gpu_list)},
          {"cpus", std::move(cpu_list)},
          {"backends", std::move(backends)},
          {"visible_gpus", visible.ok() ? Json(visible->gpus) : Json()},
          {"notes", std::move(notes)}};
}

}  // namespace harpe::command
