#pragma once
/// \file
/// The options that all subcommands about devices share: which GPUs, real or simulated.

#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/device/hw/devices.h"
#include "harpe/device/hw/gpu_choice.h"

namespace CLI {
class App;
}  // namespace CLI

namespace harpe::command {

/// The options about devices, as the user gave them.
struct DeviceArguments {
  std::string simulation;  ///< --simulate FILE
  std::string gpus;        ///< --gpus LIST
};

/// The devices of this machine, and which of their GPUs the user means.
struct ChosenDevices {
  Devices devices;
  std::vector<int> gpus;  ///< positions in `devices.gpus`, in the user's order, else rising
  std::vector<std::string> notes;  ///< what the user should know about the choice

  /// Returns the chosen GPUs, in the user's order, and all CPUs. `devices` owns both.
  std::vector<Gpu*> chosen_gpus() const;
  std::vector<Cpu*> all_cpus() const;
};

/// Adds `--simulate FILE` and `--gpus LIST`. `arguments` must outlive the parsing.
void add_device_options(CLI::App& app, DeviceArguments& arguments);

/// Opens all devices: environment variables first, then the options.
Result<Devices> open_all_devices(const DeviceArguments& arguments);
/// The GPUs that `--gpus` means among `devices`.
Result<device::GpuChoice> choose_gpus(const DeviceArguments& arguments, const Devices& devices);

/// Opens all devices and finds the GPUs meant.
/// Without `--gpus` these are the ones that a program started here would use; there may be none.
Result<ChosenDevices> open_chosen_devices(const DeviceArguments& arguments);

/// Why there is no GPU: what each backend says, one a line. For messages of commands that need one.
std::string no_gpu_text(const Devices& devices);

/// For machines without a GPU: how to try `harpe SUBCOMMAND` on simulated ones, as lines to type.
std::string simulation_hint(const std::string& subcommand, const std::string& rest = "");

}  // namespace harpe::command
