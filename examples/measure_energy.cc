// Measures the energy of this machine's GPUs and CPUs during one second, each with its error bar,
// and appends a line to a log. On a machine without a GPU:
//
//   HARPE_SIMULATION=simulations/a100x4.toml measure_energy LOG.csv

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/device/hw/device.h"
#include "harpe/device/hw/devices.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/device/measure/energy_estimate.h"
#include "harpe/device/measure/energy_log.h"
#include "harpe/device/measure/energy_monitor.h"

namespace {

harpe::Status run(const char* log) {
  const harpe::Devices devices =
      HARPE_TRY(harpe::open_devices(harpe::DeviceOptions::of_environment()));
  for (const harpe::BackendState& backend : devices.backends) {
    std::printf("%s: %s\n", backend.name.c_str(), backend.detail.c_str());
  }
  std::vector<harpe::Gpu*> gpus;
  for (const auto& gpu : devices.gpus) gpus.push_back(gpu.get());
  std::vector<harpe::Cpu*> cpus;
  for (const auto& cpu : devices.cpus) cpus.push_back(cpu.get());

  harpe::Clock& clock = harpe::system_clock();
  const auto monitor = HARPE_TRY(harpe::EnergyMonitor::start(gpus, cpus, {}, clock));
  HARPE_TRY(monitor->begin("work"));
  clock.sleep_until(clock.now() + harpe::Seconds{1});  // replace with your work
  const harpe::WindowEnergy used = HARPE_TRY(monitor->end("work"));
  for (const harpe::DeviceEnergy& device : used.devices) {
    const harpe::EnergyEstimate& energy = device.energy;
    std::printf("%s: %.1f +- %.1f J (%s)\n", device.label().c_str(), energy.energy.value,
                energy.error.value, std::string(harpe::source_name(energy.source)).c_str());
  }
  return harpe::EnergyLog(log).append(used);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: measure_energy LOG.csv\n");
    return 2;
  }
  const harpe::Status done = run(argv[1]);
  if (done.ok()) return 0;
  std::fprintf(stderr, "%s\n", done.error().text().c_str());
  return harpe::exit_status(done.error().code);
}
