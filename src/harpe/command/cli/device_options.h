#pragma once
/// \file
/// The options that all subcommands about devices share: the GPUs, real or simulated.

#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/device/hw/devices.h"
#include "harpe/device/hw/gpu_choice.h"

namespace CLI {
class App;
}  // namespace CLI

namespace harpe::command {

/// The options about devices, unchanged.
struct DeviceArguments {
  std::string simulation;  ///< --simulate FILE
  std::string gpus;        ///< --gpus LIST
};

/// The devices of this machine, and the GPUs that the user has chosen.
struct ChosenDevices {
  Devices devices;
  std::vector<int> gpus;  ///< positions in `devices.gpus`, in the user's order, otherwise rising
  std::vector<std::string> notes;  ///< facts about the choice that the user should know

  /// Returns the chosen GPUs, in the user's order, and all CPUs. `devices` owns both.
  std::vector<Gpu*> chosen_gpus() const;
  std::vector<Cpu*> all_cpus() const;
};

/// Adds `--simulate FILE` and `--gpus LIST`. `arguments` must outlive the parsing.
void add_device_options(CLI::App& app, DeviceArguments& arguments);

/// Opens all devices: environment variables first, then the options.
Result<Devices> open_all_devices(const DeviceArguments& arguments);
/// Returns the GPUs among `devices` that `--gpus` chooses.
Result<device::GpuChoice> choose_gpus(const DeviceArguments& arguments, const Devices& devices);

/// Opens all devices and finds the chosen GPUs. Without `--gpus` these are the GPUs that a program
/// started here would use; there may be none.
Result<ChosenDevices> open_chosen_devices(const DeviceArguments& arguments);

/// Returns each backend's reason why there is no GPU, one per line, for commands that need one.
std::string no_gpu_text(const Devices& devices);

/// Returns, for machines without GPUs, the lines to type for `harpe SUBCOMMAND` on simulated ones.
std::string simulation_hint(const std::string& subcommand, const std::string& rest = "");

}  // namespace harpe::command
