#include "harpe/device/hw/device.h"

#include <algorithm>
#include <array>
#include <utility>

namespace harpe {

std::string EventReasons::text() const {
  static constexpr std::array<std::pair<std::uint64_t, const char*>, 9> kNames{
      {{kIdle, "idle"},
       {kApplicationClocks, "application clocks"},
       {kPowerCap, "power cap"},
       {kHardwareSlowdown, "hardware slowdown"},
       {kSyncBoost, "sync boost"},
       {kSoftwareThermal, "software thermal"},
       {kHardwareThermal, "hardware thermal"},
       {kPowerBrake, "power brake"},
       {kDisplay, "display"}}};
  std::string text;
  for (const auto& [bit, name] : kNames) {
    if ((bits & bit) == 0) continue;
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

Error Gpu::not_supported(const std::string& what) const {
  return Error::of(
      ErrorCode::kNotSupported,
      identity().name + " (GPU " + std::to_string(identity().index) + ") does not support " + what);
}

std::filesystem::path Gpu::owner_lock() const {
  const GpuIdentity& gpu = identity();
  std::string name = !gpu.uuid.empty()  ? gpu.uuid
                     : !gpu.pci.empty() ? gpu.pci
                                        : gpu.backend + "-" + std::to_string(gpu.index);
  // Text from a driver must not act as a path.
  std::ranges::replace(name, '/', '_');
  return std::filesystem::path("/run/harpe/locks") / (name + ".lock");
}
Result<Joules> Gpu::total_energy() {
  return not_supported("reading its energy");
}
Result<Watts> Gpu::instant_power() {
  return not_supported("reading its power");
}
Result<Watts> Gpu::average_power() {
  return not_supported("reading its average power");
}
Result<Megahertz> Gpu::clock(ClockDomain /*domain*/) {
  return not_supported("reading its clocks");
}
Result<std::vector<Megahertz>> Gpu::supported_clocks(ClockDomain /*domain*/) {
  return not_supported("listing its clocks");
}
Result<std::optional<ClockRange>> Gpu::locked_clocks(ClockDomain /*domain*/) {
  return not_supported("reading its clock lock");
}
Result<Watts> Gpu::power_limit() {
  return not_supported("a power limit");
}
Result<Watts> Gpu::enforced_power_limit() {
  return not_supported("reading its enforced power limit");
}
Result<PowerLimitRange> Gpu::power_limit_range() {
  return not_supported("a power limit");
}
Result<double> Gpu::temperature() {
  return not_supported("reading its temperature");
}
Result<double> Gpu::utilisation() {
  return not_supported("reading its utilisation");
}
Result<MemoryUse> Gpu::memory() {
  return not_supported("reading how much of its memory is used");
}
Result<EventReasons> Gpu::event_reasons() {
  return not_supported("reading why its clock is low");
}
Result<std::vector<std::int64_t>> Gpu::processes() {
  return not_supported("listing its processes");
}
Result<bool> Gpu::persistence_mode() {
  return not_supported("persistence mode");
}
Status Gpu::may_set() const {
  if (!identity().is_mig) return ok_status();
  return Error::of(
      ErrorCode::kNotSupported,
      identity().name + " (GPU " + std::to_string(identity().index) +
          ") is divided into MIG instances, which share its clocks, its power and its power limit "
          "and have no separate ones: a change would affect all instances; disable MIG mode "
          "first");
}
Status Gpu::set_locked_clocks(ClockDomain /*domain*/, ClockRange /*range*/) {
  return not_supported("locking its clocks");
}
Status Gpu::reset_locked_clocks(ClockDomain /*domain*/) {
  return not_supported("locking its clocks");
}
Status Gpu::set_power_limit(Watts /*limit*/) {
  return not_supported("setting a power limit");
}
Status Gpu::set_persistence_mode(bool /*enabled*/) {
  return not_supported("persistence mode");
}

}  // namespace harpe
