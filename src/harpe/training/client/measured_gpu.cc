#include "harpe/training/client/measured_gpu.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "harpe/base/text.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/device/hw/visible_gpus.h"

namespace harpe {
namespace {

constexpr Seconds kClockInterval{0.05};  // between readings of the clock, where it is wanted

/// Position of the GPU to use among those found; nullopt, with a line of the log, where that is not
/// known.
std::optional<std::size_t> choose(const RankClientOptions& options, const Devices& devices) {
  const auto& gpus = devices.gpus;
  if (options.gpu) return static_cast<std::size_t>(*options.gpu);
  std::vector<GpuIdentity> identities;
  identities.reserve(gpus.size());
  for (const auto& gpu : gpus) identities.push_back(gpu->identity());
  const auto visible = visible_gpus(identities, VisibilityVariables::of_environment());
  if (!visible.ok()) {
    options.log(visible.error().text() + "; this rank's energy is not measured");
    return std::nullopt;
  }
  const char* local = std::getenv("LOCAL_RANK");
  const auto rank = local == nullptr ? std::nullopt : parse_integer(local);
  // Launchers that show a rank its own GPU alone count ranks all the same.
  const auto count = static_cast<std::int64_t>(visible->gpus.size());
  const std::int64_t position = count == 1 ? 0 : rank.value_or(-1);
  if (position < 0 || position >= count) {
    options.log(count == 0
                    ? "no GPU is visible here: energy is not measured and no clock is set"
                    : "which of " + std::to_string(count) + " GPUs is this rank's is not known: " +
                          (local != nullptr ? "LOCAL_RANK is " + std::string(local)
                                            : "give HARPE_GPU or LOCAL_RANK") +
                          "; energy is not measured and no clock is set");
    return std::nullopt;
  }
  return static_cast<std::size_t>(visible->gpus[static_cast<std::size_t>(position)]);
}

}  // namespace

Result<MeasuredGpu> MeasuredGpu::find(const RankClientOptions& options) {
  MeasuredGpu found;
  found.index = options.gpu;
  Gpu* gpu = options.measured;
  if (gpu == nullptr) {
    auto devices = HARPE_TRY(open_devices(DeviceOptions::of_environment()));
    found.devices = std::move(devices);
    const auto position = choose(options, found.devices);
    if (!position) return found;
    if (*position >= found.devices.gpus.size()) {
      if (found.devices.gpus.empty()) {
        options.log("no GPU can be read here: energy is not measured");
        return found;
      }
      return Error::invalid("this node has GPUs 0 to " +
                            std::to_string(found.devices.gpus.size() - 1) + ", and no GPU " +
                            std::to_string(*position));
    }
    gpu = found.devices.gpus[*position].get();
  }
  if (!found.index) found.index = gpu->identity().index;
  found.name = gpu->identity().name;
  found.simulated = gpu->identity().backend == "sim";
  if (auto clocks = gpu->supported_clocks(ClockDomain::kGraphics); clocks.ok()) {
    found.clocks = *std::move(clocks);
  }
  if (const auto limit = gpu->power_limit(); limit.ok()) found.power_limit = *limit;
  const std::array<Gpu*, 1> one{gpu};
  found.clock_readings = std::make_unique<ClockReadings>(system_clock());
  // An observing rank has no assignments: only readings show its clock.
  found.clock_readings->enable(options.spec.observe);
  const auto look = [readings = found.clock_readings.get()](std::size_t, Gpu& at) {
    readings->look(at);
  };
  found.monitor = HARPE_TRY(EnergyMonitor::start(
      one, {}, {.reasons_interval = Seconds{0.1}, .look = look, .look_interval = kClockInterval},
      system_clock()));
  return found;
}

}  // namespace harpe
