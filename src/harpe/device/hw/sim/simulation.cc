#include "harpe/device/hw/sim/simulation.h"

#include <unistd.h>

#include <cstdio>

#include "harpe/base/digest.h"
#include "harpe/base/file.h"
#include "harpe/device/hw/sim/simulation_core.h"
#include "harpe/device/hw/system_clock.h"

namespace harpe {
namespace {

constexpr std::uint64_t kConfigLimit = 1 << 20;

std::vector<device::SimulatedGpuState> initial_states(const device::SimulationConfig& config) {
  std::vector<device::SimulatedGpuState> states;
  for (const device::SimulatedGpuSpec& spec : config.gpus)
    states.push_back(device::initial_state(spec));
  return states;
}

std::filesystem::path default_state_file(std::uint64_t digest, bool everyone) {
  const std::string user = everyone ? "everyone" : std::to_string(::geteuid());
  return std::filesystem::path("/dev/shm") / ("harpe-sim-" + user + '-' + hexadecimal(digest));
}

}  // namespace

Result<std::shared_ptr<Simulation>> Simulation::make(std::string_view toml, const std::string& file,
                                                     Clock& clock) {
  device::SimulationConfig config = HARPE_TRY(device::parse_simulation(toml, file));
  auto memory =
      HARPE_TRY(device::StateMemory::make_private(initial_states(config), clock.now().ns));
  return std::shared_ptr<Simulation>(
      std::make_shared<device::SimulationCore>(std::move(config), std::move(memory), clock));
}

Result<std::shared_ptr<device::SimulationCore>> device::open_simulation(
    const std::filesystem::path& path) {
  // Reading a pipe would wait for a writer, and the next program that reads it would not get the
  // text again.
  std::error_code unknown;
  if (std::filesystem::is_fifo(path, unknown)) {
    return Error::io(path.string(), "is a pipe; a simulation is described by a file");
  }
  const std::string text = HARPE_TRY(read_file(path, kConfigLimit));
  device::SimulationConfig config = HARPE_TRY(device::parse_simulation(text, path.string()));
  // Files of the same content in two places are two simulations.
  std::error_code ignored;
  const std::string place = std::filesystem::weakly_canonical(path, ignored).string();
  const std::uint64_t digest = fnv1a(text, fnv1a(place));
  const std::filesystem::path file = config.state_file.empty()
                                         ? default_state_file(digest, config.shared_by_everyone)
                                         : config.state_file;
  auto memory = HARPE_TRY(device::StateMemory::open_shared(
      file, initial_states(config), {digest, system_clock().now().ns}, config.shared_by_everyone));
  return std::make_shared<device::SimulationCore>(std::move(config), std::move(memory),
                                                  system_clock(), file);
}

Result<std::shared_ptr<Simulation>> Simulation::open(const std::filesystem::path& config) {
  std::shared_ptr<device::SimulationCore> core = HARPE_TRY(device::open_simulation(config));
  return std::shared_ptr<Simulation>(std::move(core));
}

}  // namespace harpe
