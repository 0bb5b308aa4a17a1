#include "harpe/device/hw/rocm/amd_gpu.h"

#include <algorithm>
#include <cmath>

#include "harpe/base/text.h"

namespace harpe {
namespace {

constexpr int kClockStep = 50;
/// Counters and sensors that agree less well than this do not measure the same thing.
constexpr double kMostDisagreement = 10;

}  // namespace

void AmdGpu::begin_energy_check(Instant now) {
  if (const Result<Joules> energy = library_->energy(number_); energy.ok()) {
    check_ = {.energy = *energy, .time = now};
  }
}

void AmdGpu::end_energy_check(Instant now) {
  if (!check_) return;  // it has no counter, and says so itself
  const Result<Joules> energy = library_->energy(number_);
  const Result<Watts> power = instant_power();
  if (!energy.ok() || !power.ok()) {
    no_energy_ = "there is no power reading to check its energy counter with";
    return;
  }
  const Joules expected = *power * (now - check_->time);
  const double ratio = (*energy - check_->energy) / expected;
  if (!(ratio > 1 / kMostDisagreement && ratio < kMostDisagreement)) {
    no_energy_ = "its energy counter counts " + shortest(ratio, 3) +
                 " times what its power says (wrong before ROCm 6.3)";
  }
}

Result<Joules> AmdGpu::total_energy() {
  if (!no_energy_.empty()) {
    return Error::of(
        ErrorCode::kNotSupported,
        identity_.name + " (GPU " + std::to_string(identity_.index) + "): " + no_energy_);
  }
  return library_->energy(number_);
}

Result<Watts> AmdGpu::instant_power() {
  const auto power = sysfs_.instant_power();
  return or_not_supported(power ? power : sysfs_.average_power(), "reading its power");
}
Result<Watts> AmdGpu::average_power() {
  return or_not_supported(sysfs_.average_power(), "reading its average power");
}

Result<Megahertz> AmdGpu::clock(ClockDomain domain) {
  return or_not_supported(
      domain == ClockDomain::kGraphics ? sysfs_.graphics_clock() : sysfs_.memory_clock(),
      "reading its clocks");
}

Result<std::vector<Megahertz>> AmdGpu::supported_clocks(ClockDomain domain) {
  const auto levels = sysfs_.graphics_clock_levels();
  if (domain == ClockDomain::kMemory || !levels || levels->empty()) {
    return not_supported("locking its clocks");
  }
  std::vector<Megahertz> clocks;
  for (int clock = levels->front().value; clock < levels->back().value; clock += kClockStep) {
    clocks.push_back({clock});
  }
  clocks.push_back(levels->back());
  return clocks;
}

Result<std::optional<ClockRange>> AmdGpu::locked_clocks(ClockDomain domain) {
  const auto level = sysfs_.performance_level();
  if (domain == ClockDomain::kMemory || !level) return Gpu::locked_clocks(domain);
  if (*level == "auto") return std::optional<ClockRange>{};
  const auto highest = sysfs_.highest_graphics_clock();
  const auto levels = sysfs_.graphics_clock_levels();
  if (*level != "perf_determinism" || !highest || !levels || levels->empty()) {
    return Error::of(ErrorCode::kNotSupported,
                     identity_.name + " (GPU " + std::to_string(identity_.index) +
                         ") has the performance level " + in_quotes(*level) +
                         ", whose clocks cannot be told; 'rocm-smi --resetclocks' ends it");
  }
  return std::optional(
      ClockRange{.lowest = std::min(levels->front(), *highest), .highest = *highest});
}

Result<Watts> AmdGpu::power_limit() {
  return or_not_supported(sysfs_.power_limit(), "a power limit");
}

Result<PowerLimitRange> AmdGpu::power_limit_range() {
  const auto lowest = sysfs_.lowest_power_limit();
  const auto highest = sysfs_.highest_power_limit();
  const auto factory = sysfs_.factory_power_limit();
  if (!lowest || !highest) return not_supported("a power limit");
  return PowerLimitRange{
      .lowest = *lowest, .highest = *highest, .factory = factory.value_or(*highest)};
}

Result<double> AmdGpu::temperature() {
  return or_not_supported(sysfs_.hotspot_temperature(), "reading its temperature");
}
Result<double> AmdGpu::utilisation() {
  return or_not_supported(sysfs_.utilisation(), "reading its utilisation");
}
Result<MemoryUse> AmdGpu::memory() {
  return or_not_supported(sysfs_.memory(), "reading how much of its memory is used");
}

Status AmdGpu::may_set() const {
  if (sysfs_.may_set()) return ok_status();
  return Error::of(ErrorCode::kNoPermission,
                   std::string("setting clocks and limits: ") + kAmdRemedy);
}

Status AmdGpu::set_locked_clocks(ClockDomain domain, ClockRange range) {
  if (domain == ClockDomain::kMemory) return not_supported("locking its memory clock");
  if (range.highest.value <= 0 || range.highest < range.lowest) {
    return Error::invalid("limiting its clock: " + std::to_string(range.lowest.value) + ".." +
                          std::to_string(range.highest.value) + " MHz is no range");
  }
  return library_->set_highest_clock(number_, static_cast<std::uint64_t>(range.highest.value));
}

Status AmdGpu::reset_locked_clocks(ClockDomain domain) {
  if (domain == ClockDomain::kMemory) return not_supported("locking its memory clock");
  return library_->reset_clock(number_);
}

Status AmdGpu::set_power_limit(Watts limit) {
  if (!(limit.value >= 0) || limit.value > 1e6) {
    return Error::invalid("setting a power limit: out of range");
  }
  return library_->set_power_limit(number_,
                                   static_cast<std::uint64_t>(std::round(limit.value * 1e6)));
}

}  // namespace harpe
