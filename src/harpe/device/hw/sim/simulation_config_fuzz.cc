// Any bytes are read as a simulation. If they are accepted, it can run for an hour with load and
// its state stays finite.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "harpe/base/clock.h"
#include "harpe/device/hw/sim/simulation.h"
#include "harpe/device/hw/sim/simulation_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = harpe::device::parse_simulation(text, "sim.toml");
  if (!config.ok()) {
    if (config.error().diagnostics.empty()) std::abort();
    return 0;
  }
  harpe::ManualClock clock;
  const auto simulation = harpe::Simulation::make(text, "sim.toml", clock);
  if (!simulation.ok()) std::abort();
  const int last = (*simulation)->gpus() - 1;
  const auto gpu = (*simulation)->gpu(last);
  if (!(*simulation)->set_load(last, 1).ok()) std::abort();
  clock.advance(harpe::Seconds{20});
  const double before = (*simulation)->truth(last).energy.value;
  clock.advance(harpe::Seconds{3600});
  const harpe::SimulatedTruth truth = (*simulation)->truth(last);
  if (!std::isfinite(truth.energy.value) || truth.energy.value < before ||
      !std::isfinite(truth.temperature)) {
    std::abort();
  }
  const auto power = gpu->instant_power();
  if (power.ok() && !std::isfinite(power->value)) std::abort();
  return 0;
}
