#include "harpe/command/cli/device_options.h"

#include <algorithm>
#include <utility>

#include "harpe/command/command/options.h"

namespace harpe::command {

void add_device_options(CLI::App& app, DeviceArguments& arguments) {
  add_text(app, "--gpus", "LIST",
           "GPUs: indices and ranges (0,2-3), UUIDs or UUID prefixes, PCI addresses, or all "
           "(default: GPUs that CUDA_VISIBLE_DEVICES and similar variables allow)",
           arguments.gpus);
  add_text(app, "--simulate", "FILE",
           "Use the simulated GPUs of this file instead of real GPUs (also HARPE_SIMULATION)",
           arguments.simulation);
}

Result<Devices> open_all_devices(const DeviceArguments& arguments) {
  DeviceOptions options = DeviceOptions::of_environment();
  if (!arguments.simulation.empty()) options.simulation = arguments.simulation;
  return open_devices(options);
}

Result<device::GpuChoice> choose_gpus(const DeviceArguments& arguments, const Devices& devices) {
  std::vector<GpuIdentity> identities;
  identities.reserve(devices.gpus.size());
  for (const auto& gpu : devices.gpus) identities.push_back(gpu->identity());
  return device::choose_gpus(arguments.gpus, identities,
                             device::VisibilityVariables::of_environment());
}

Result<ChosenDevices> open_chosen_devices(const DeviceArguments& arguments) {
  Devices devices = HARPE_TRY(open_all_devices(arguments));
  device::GpuChoice choice = HARPE_TRY(choose_gpus(arguments, devices));
  // CUDA's order matters to programs that count in it; users expect GPU 0 before GPU 1.
  if (arguments.gpus.empty()) std::ranges::sort(choice.gpus);
  return ChosenDevices{.devices = std::move(devices),
                       .gpus = std::move(choice.gpus),
                       .notes = std::move(choice.notes)};
}

std::string no_gpu_text(const Devices& devices) {
  std::string text;
  for (const BackendState& backend : devices.backends) {
    if (backend.name == "rapl") continue;
    text += "  " + backend.name + ": " + backend.detail + "\n";
  }
  return text;
}

std::string simulation_hint(const std::string& subcommand, const std::string& rest) {
  return "To try it without a GPU, simulate some (docs/simulated-gpus.md):\n"
         "  printf '[[gpu]]\\nmodel = \"a100-sxm\"\\ncount = 4\\n' > gpus.toml\n"
         "  harpe " +
         subcommand + " --simulate gpus.toml" + rest + "\n";
}

std::vector<Gpu*> ChosenDevices::chosen_gpus() const {
  std::vector<Gpu*> chosen;
  for (const int gpu : gpus) chosen.push_back(devices.gpus[static_cast<std::size_t>(gpu)].get());
  return chosen;
}

std::vector<Cpu*> ChosenDevices::all_cpus() const {
  std::vector<Cpu*> cpus;
  for (const auto& cpu : devices.cpus) cpus.push_back(cpu.get());
  return cpus;
}

}  // namespace harpe::command
