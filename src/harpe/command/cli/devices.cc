#include <algorithm>
#include <cstdlib>
#include <memory>
#include <ostream>

#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/device_options.h"
#include "harpe/command/cli/device_view.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/options.h"

namespace harpe::command {
namespace {

Result<Outcome> run_devices(const DeviceArguments& arguments, Console& console) {
  const Devices devices = HARPE_TRY(open_all_devices(arguments));
  const Result<device::GpuChoice> choice = choose_gpus(arguments, devices);
  // Errors in the environment are shown; errors in the user's options are refused.
  if (!choice.ok() && !arguments.gpus.empty()) return choice.error();
  const Result<device::GpuChoice> visible =
      arguments.gpus.empty() ? choice : choose_gpus(DeviceArguments{}, devices);

  std::vector<WantedDevice> wanted;
  for (const auto& gpu : devices.gpus) {
    const bool chosen =
        choice.ok() && std::ranges::find(choice->gpus, gpu->identity().index) != choice->gpus.end();
    if (chosen || arguments.gpus.empty()) wanted.push_back({gpu.get(), chosen});
  }
  const std::vector<DeviceView> gpus = read_devices(wanted);
  const int columns = console.out_is_terminal ? terminal_size().columns : 0;
  Outcome outcome{.text = devices_text(devices, gpus, visible, columns, console.colour_out),
                  .json = json_text(devices_json(devices, gpus, visible))};
  if (std::ranges::none_of(gpus, &DeviceView::hangs)) return outcome;
  // A driver's call cannot be stopped: its thread and data are left to the kernel.
  console.out << (console.json ? outcome.json : outcome.text) << std::flush;
  std::_Exit(0);
}

}  // namespace

void add_devices_command(Commands& commands) {
  const auto arguments = std::make_shared<DeviceArguments>();
  CLI::App& app = commands.add(
      commands.root(), "devices",
      "show GPUs and CPUs, their readings and permitted settings\n"
      "Lists every GPU with its clocks, power and limits, and shows which of them this user may "
      "set, or why not. Also lists the CPU packages with energy counters, and the state of each "
      "backend. Sets nothing. A machine without any GPU is not an error.",
      "harpe devices\n"
      "harpe devices --gpus 0-3 --json\n"
      "harpe devices --simulate gpus.toml",
      [arguments](Console& console) { return run_devices(*arguments, console); });
  add_device_options(app, *arguments);
}

}  // namespace harpe::command
