#include <algorithm>
#include <utility>

#include "harpe/base/quantity_text.h"
#include "harpe/command/cli/device_options.h"
#include "harpe/command/cli/device_view.h"
#include "harpe/command/cli/measure_output.h"
#include "harpe/command/cli/terminal_text.h"
#include "harpe/command/command/text_layout.h"

namespace harpe::command {
namespace {

constexpr const char* kLostAdvice =
    "take the node out of service, look for Xid in the kernel log (dmesg | grep -i xid), try "
    "nvidia-smi --gpu-reset -i GPU when no program uses the GPU, or restart the machine; replace a "
    "GPU that is lost again";

/// Returns a range of possible settings, such as "210..1980".
std::string range_text(const std::string& lowest, const std::string& highest) {
  return lowest + ".." + highest;
}

std::string watts_text(const std::optional<Watts>& power, int decimals = 0) {
  return power ? fixed(power->value, decimals) : "-";
}

/// Returns the power drawn and the limit, such as "55 / 400".
std::string power_text(const DeviceView& gpu) {
  const auto limit = gpu.enforced_limit ? gpu.enforced_limit : gpu.limit;
  return watts_text(gpu.instant_power) + " / " + watts_text(limit) +
         (gpu.scope == PowerScope::kModule ? " (module)" : "");
}

std::string clock_text(const DeviceView& gpu) {
  return gpu.graphics_clock ? std::to_string(gpu.graphics_clock->value) : "-";
}

std::string clocks_text(const DeviceView& gpu) {
  const auto& clocks = gpu.graphics_clocks;
  if (!clocks || clocks->empty()) return "-";
  return range_text(std::to_string(clocks->front().value), std::to_string(clocks->back().value));
}

std::string limits_text(const DeviceView& gpu) {
  if (!gpu.limit_range) return "-";
  return range_text(watts_text(gpu.limit_range->lowest), watts_text(gpu.limit_range->highest));
}

/// Returns "yes" if Harpe may set the GPU's main control. The reason for "no" is below the table.
std::string may_set_text(const DeviceView& gpu) {
  if (gpu.controls.empty()) return "-";
  return gpu.controls.front().allowed.ok() ? "yes" : "no: below";
}

std::string state_text(const DeviceView& gpu) {
  if (gpu.hangs) return "NO ANSWER";
  if (gpu.lost) return "LOST";
  std::string text = gpu.reasons ? gpu.reasons->text() : "-";
  if (gpu.reasons && text.empty()) text = "none";
  return text;
}

std::string gpus_text(const std::vector<DeviceView>& gpus, int columns, bool coloured) {
  Table table{
      // The columns of a GPU's identity, its activity and its control are never left out.
      .columns = {{.heading = "GPU", .align = Align::kLeft},
                  {.heading = "name", .align = Align::kLeft, .rank = 1, .narrowest = 8},
                  {.heading = "power W", .align = Align::kLeft},
                  {.heading = "clock MHz", .align = Align::kLeft},
                  {.heading = "set clocks", .align = Align::kLeft},
                  {.heading = "held back by", .align = Align::kLeft, .rank = 2, .narrowest = 12},
                  {.heading = "clocks MHz", .align = Align::kLeft, .rank = 3},
                  {.heading = "limits W", .align = Align::kLeft, .rank = 4},
                  {.heading = "UUID", .align = Align::kLeft, .rank = 5},
                  {.heading = "energy", .align = Align::kLeft, .rank = 6},
                  {.heading = "PCI", .align = Align::kLeft, .rank = 7},
                  {.heading = "persistence", .align = Align::kLeft, .rank = 8}}};
  for (const DeviceView& gpu : gpus) {
    const GpuIdentity& identity = gpu.identity;
    // The beginning of a UUID distinguishes GPUs and is short enough to type.
    std::string uuid = identity.uuid.substr(0, 12);
    if (uuid.size() < identity.uuid.size()) uuid += "...";
    const std::string persistence =
        gpu.persistence_mode ? *gpu.persistence_mode ? "on" : "off" : "-";
    const std::string name = columns > 0 ? short_device_name(identity.name) : identity.name;
    table.add({std::to_string(identity.index), printable((identity.is_mig ? "(MIG) " : "") + name),
               power_text(gpu), clock_text(gpu), may_set_text(gpu), state_text(gpu),
               clocks_text(gpu), limits_text(gpu), printable(uuid),
               gpu.lost     ? "-"
               : gpu.energy ? "yes"
                            : "no",
               printable(identity.pci), persistence});
  }
  std::string text = table.text(coloured, columns);
  if (text.find("persistence") == std::string::npos) {
    text += wrapped_text("A wider terminal or --json shows more of each GPU, such as its UUID.",
                         columns);
  }
  return text;
}

/// Returns the controls of all GPUs. Lists equal controls once.
std::string controls_text(const std::vector<DeviceView>& gpus, int columns) {
  std::string text;
  std::vector<std::pair<std::string, std::string>> said;  // text, "0, 1"
  for (const DeviceView& gpu : gpus) {
    std::string may, lines;
    for (const DeviceControl& control : gpu.controls) {
      if (control.allowed.ok()) may += (may.empty() ? "" : ", ") + std::string(control.name);
    }
    if (gpu.lost) {
      lines =
          wrapped_text((gpu.hangs ? "  no answer: " : "  lost: ") + gpu.lost->text(), columns, 4) +
          wrapped_text("  what to do: " + std::string(kLostAdvice), columns, 4);
    }
    if (!may.empty()) lines += wrapped_text("  may set: " + may, columns, 4);
    std::vector<std::pair<std::string, std::string>> reasons;  // reason, controls
    for (const DeviceControl& control : gpu.controls) {
      if (control.allowed.ok() || gpu.lost) continue;
      const std::string why = control.allowed.error().text();
      const auto same = std::ranges::find(reasons, why, [](const auto& r) { return r.first; });
      if (same == reasons.end()) {
        reasons.emplace_back(why, control.name);
      } else {
        same->second += std::string(", ") + control.name;
      }
    }
    for (const auto& [why, names] : reasons) {
      lines += wrapped_text("  not " + names + ": " + why, columns, 4);
    }
    if (!gpu.energy && !gpu.lost) {
      lines += wrapped_text("  no energy: " + gpu.no_energy, columns, 4);
    }
    const std::string index = std::to_string(gpu.identity.index);
    const auto same = std::ranges::find(said, lines, [](const auto& s) { return s.first; });
    if (same == said.end()) {
      said.emplace_back(lines, index);
    } else {
      same->second += ", " + index;
    }
  }
  for (const auto& [lines, indices] : said) {
    text += (indices.find(',') == std::string::npos ? "GPU " : "GPUs ") + indices + "\n" + lines;
  }
  return text;
}

std::string visible_text(const Result<device::GpuChoice>& visible, int columns) {
  if (!visible.ok()) return "Programs started here: " + visible.error().text() + "\n";
  std::string text = "Programs started here use ";
  if (visible->gpus.empty()) {
    text += "no GPU";
  } else {
    text += visible->gpus.size() == 1 ? "GPU " : "GPUs ";
    for (std::size_t i = 0; i < visible->gpus.size(); ++i) {
      text += (i == 0 ? "" : ", ") + std::to_string(visible->gpus[i]);
    }
  }
  text += ".\n";
  for (const std::string& note : visible->notes) text += wrapped_text("  " + note, columns, 4);
  return text;
}

std::string cpus_text(const Devices& devices) {
  std::string text;
  for (const auto& cpu : devices.cpus) {
    const Result<CpuEnergy> energy = cpu->total_energy();
    text += "CPU " + std::to_string(cpu->index()) + "  " + cpu->name() +
            (cpu->has_dram() ? ", memory metered too" : ", memory not metered") +
            (energy.ok() ? "" : "; cannot be read: " + energy.error().text()) + "\n";
  }
  return text;
}

}  // namespace

std::string devices_text(const Devices& devices, const std::vector<DeviceView>& gpus,
                         const Result<device::GpuChoice>& visible, int columns, bool coloured) {
  std::string text;
  if (gpus.empty()) {
    text = "No GPU on this machine.\n";
  } else {
    text = gpus_text(gpus, columns, coloured) + "\n" + controls_text(gpus, columns) + "\n" +
           visible_text(visible, columns);
  }
  text += "\n" + (devices.cpus.empty() ? std::string("No CPU energy counter on this machine.\n")
                                       : cpus_text(devices));
  text += '\n';
  for (const BackendState& backend : devices.backends) {
    text += wrapped_text(
        backend.name + ": " + (backend.available ? "" : "not available: ") + backend.detail,
        columns);
  }
  if (gpus.empty()) {
    text += "\nA missing driver is not an error.\n" + simulation_hint("devices");
  }
  return text;
}

}  // namespace harpe::command
