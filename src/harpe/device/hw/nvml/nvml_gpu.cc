#include "harpe/device/hw/nvml/nvml_gpu.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

namespace harpe {
namespace {

bool has_capability(int capability) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) return false;
  return (data[static_cast<std::size_t>(capability) / 32].effective >> (capability % 32) & 1U) != 0;
}

constexpr double kMilli = 1e-3;

double number_in(const NvmlFieldValue& value) {
  switch (value.type) {
    case NvmlFieldValue::kDouble:
      return value.value.as_double;
    case NvmlFieldValue::kUnsigned:
      return value.value.as_unsigned;
    case NvmlFieldValue::kUnsignedLong:
      return static_cast<double>(value.value.as_unsigned_long);
    case NvmlFieldValue::kUnsignedLongLong:
      return static_cast<double>(value.value.as_unsigned_long_long);
    case NvmlFieldValue::kSignedLongLong:
      return static_cast<double>(value.value.as_signed_long_long);
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

unsigned domain_number(ClockDomain domain) {
  return domain == ClockDomain::kGraphics ? kNvmlClockGraphics : kNvmlClockMemory;
}

const char* domain_name(ClockDomain domain) {
  return domain == ClockDomain::kGraphics ? "graphics clock" : "memory clock";
}

/// The chips whose "power usage" is the moment though they are Ampere.
bool is_ga100(const std::string& name) {
  return name.find("A100") != std::string::npos || name.find("A800") != std::string::npos ||
         name.find("A30") != std::string::npos;
}

/// A list that NVML fills: first its length, then its entries. `fill(count, entries)` answers an
/// NVML result.
template <class Fill>
int fill_list(std::vector<unsigned>& list, Fill fill) {
  // More than any GPU has: NVML writes no more than it is offered.
  list.resize(1024);
  auto count = static_cast<unsigned>(list.size());
  const int result = fill(&count, list.data());
  list.resize(result == kNvmlSuccess ? std::min<std::size_t>(count, list.size()) : 0);
  return result;
}

std::vector<Megahertz> rising(const std::vector<unsigned>& list) {
  std::vector<Megahertz> clocks;
  clocks.reserve(list.size());
  for (const unsigned clock : list) clocks.push_back({static_cast<int>(clock)});
  std::ranges::sort(clocks);
  const auto same = std::ranges::unique(clocks);
  clocks.erase(same.begin(), same.end());
  return clocks;
}

}  // namespace

template <class... Parameters, class... Arguments>
Status NvmlGpu::call(const std::string& what, int (*function)(NvmlDevice, Parameters...),
                     Arguments... arguments) const {
  if (function == nullptr) return not_supported(what);
  const int result = function(device_, arguments...);
  if (result == kNvmlSuccess) return ok_status();
  if (result == kNvmlNotSupported) return not_supported(what);
  return nvml_->error(result,
                      identity_.name + " (GPU " + std::to_string(identity_.index) + "): " + what);
}

Result<std::unique_ptr<NvmlGpu>> NvmlGpu::open(std::shared_ptr<const NvmlLibrary> nvml, int index) {
  NvmlDevice device = nullptr;
  const int result = nvml->api().device_by_index(static_cast<unsigned>(index), &device);
  if (result != kNvmlSuccess) {
    return nvml->error(result, "GPU " + std::to_string(index) + " of NVML cannot be used");
  }
  std::unique_ptr<NvmlGpu> gpu(new NvmlGpu(std::move(nvml), device));
  gpu->identity_.index = index;
  gpu->read_identity();
  gpu->find_power_source();
  return gpu;
}

void NvmlGpu::read_identity() {
  identity_.backend = "nvml";
  std::array<char, 97> text{};
  constexpr auto kSize = static_cast<unsigned>(text.size() - 1);
  identity_.name = "NVIDIA GPU";
  if (call("name", api().name, text.data(), kSize).ok()) identity_.name = text.data();
  text.fill(0);
  if (call("UUID", api().uuid, text.data(), kSize).ok()) identity_.uuid = text.data();
  NvmlPciInfo pci{};
  if (call("PCI address", api().pci_info, &pci).ok()) {
    text.fill(0);
    std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
    identity_.pci = text.data();
  }
  unsigned mig = 0;
  unsigned pending = 0;
  identity_.is_mig = call("MIG", api().mig_mode, &mig, &pending).ok() && mig == 1;
  unsigned minor_number = 0;
  if (call("minor number", api().minor_number, &minor_number).ok()) {
    device_file_ = "/dev/nvidia" + std::to_string(minor_number);
  }
  unsigned cores = 0;
  unsigned highest = 0;
  if (call("cores", api().cores, &cores).ok() &&
      call("clocks", api().highest_clock, kNvmlClockSm, &highest).ok()) {
    identity_.speed = static_cast<double>(cores) * highest;
  }
}

void NvmlGpu::find_power_source() {
  const auto has = [this](unsigned id, unsigned scope) { return field(id, scope, "power").ok(); };
  unsigned scope = kNvmlScopeGpu;
  if (!has(kNvmlFieldPowerInstant, scope) && !has(kNvmlFieldPowerAverage, scope) &&
      (has(kNvmlFieldPowerInstant, kNvmlScopeModule) ||
       has(kNvmlFieldPowerAverage, kNvmlScopeModule))) {
    scope = kNvmlScopeModule;
    scope_ = PowerScope::kModule;
    has_module_energy_ = has(kNvmlFieldEnergy, scope);
  }
  has_instant_field_ = has(kNvmlFieldPowerInstant, scope);
  has_average_field_ = has(kNvmlFieldPowerAverage, scope);
  unsigned architecture = 0;
  usage_is_average_ = call("architecture", api().architecture, &architecture).ok() &&
                      architecture >= kNvmlArchitectureAmpere && !is_ga100(identity_.name);
}

Result<double> NvmlGpu::field(unsigned id, unsigned scope, const std::string& what) const {
  NvmlFieldValue value;
  value.field = id;
  value.scope = scope;
  HARPE_TRY(call(what, api().field_values, 1, &value));
  if (value.result == kNvmlNotSupported || value.result == kNvmlInvalidArgument) {
    return not_supported(what);  // drivers say either of fields they do not know
  }
  if (value.result != kNvmlSuccess) return nvml_->error(value.result, identity_.name + ": " + what);
  const double number = number_in(value);
  if (!std::isfinite(number)) return not_supported(what);
  return number;
}

Result<Watts> NvmlGpu::milliwatts(const std::string& what,
                                  int (*function)(NvmlDevice, unsigned*)) const {
  unsigned milliwatts = 0;
  HARPE_TRY(call(what, function, &milliwatts));
  return Watts{milliwatts * kMilli};
}

Result<Joules> NvmlGpu::total_energy() {
  const std::string what = "reading its energy";
  if (has_module_energy_) {
    const double millijoules = HARPE_TRY(field(kNvmlFieldEnergy, kNvmlScopeModule, what));
    return Joules{millijoules * kMilli};
  }
  unsigned long long millijoules = 0;
  HARPE_TRY(call(what, api().total_energy, &millijoules));
  return Joules{static_cast<double>(millijoules) * kMilli};
}

Result<Watts> NvmlGpu::instant_power() {
  const std::string what = "reading its power";
  const unsigned scope = scope_ == PowerScope::kModule ? kNvmlScopeModule : kNvmlScopeGpu;
  if (!has_instant_field_ && scope_ == PowerScope::kGpu) {
    return milliwatts(what, api().power_usage);
  }
  const double power = HARPE_TRY(
      field(has_instant_field_ ? kNvmlFieldPowerInstant : kNvmlFieldPowerAverage, scope, what));
  return Watts{power * kMilli};
}

Result<Watts> NvmlGpu::average_power() {
  const std::string what = "reading its average power";
  if (has_average_field_) {
    const unsigned scope = scope_ == PowerScope::kModule ? kNvmlScopeModule : kNvmlScopeGpu;
    const double power = HARPE_TRY(field(kNvmlFieldPowerAverage, scope, what));
    return Watts{power * kMilli};
  }
  if (!usage_is_average_ || scope_ == PowerScope::kModule) return not_supported(what);
  return milliwatts(what, api().power_usage);
}

Result<Megahertz> NvmlGpu::clock(ClockDomain domain) {
  unsigned megahertz = 0;
  HARPE_TRY(call(std::string("reading its ") + domain_name(domain), api().clock,
                 domain_number(domain), &megahertz));
  return Megahertz{static_cast<int>(megahertz)};
}

Result<std::vector<Megahertz>> NvmlGpu::memory_clocks() const {
  if (api().memory_clocks == nullptr) return not_supported("listing its memory clocks");
  std::vector<unsigned> list;
  const int result = fill_list(list, [this](unsigned* count, unsigned* entries) {
    return api().memory_clocks(device_, count, entries);
  });
  if (result == kNvmlNotSupported) return not_supported("listing its memory clocks");
  if (result != kNvmlSuccess) return nvml_->error(result, identity_.name + ": memory clocks");
  return rising(list);
}

Result<std::vector<Megahertz>> NvmlGpu::supported_clocks(ClockDomain domain) {
  Result<std::vector<Megahertz>> memory = memory_clocks();
  if (domain == ClockDomain::kMemory || !memory.ok()) return memory;
  if (api().graphics_clocks == nullptr || memory->empty()) {
    return not_supported("listing its clocks");
  }
  std::vector<unsigned> list;
  const int result = fill_list(list, [&](unsigned* count, unsigned* entries) {
    return api().graphics_clocks(device_, static_cast<unsigned>(memory->back().value), count,
                                 entries);
  });
  if (result == kNvmlNotSupported) return not_supported("listing its clocks");
  if (result != kNvmlSuccess) return nvml_->error(result, identity_.name + ": clocks");
  return rising(list);
}

Result<Watts> NvmlGpu::power_limit() {
  return milliwatts("a power limit", api().power_limit);
}

Result<Watts> NvmlGpu::enforced_power_limit() {
  return milliwatts("telling its enforced power limit", api().enforced_power_limit);
}

Result<PowerLimitRange> NvmlGpu::power_limit_range() {
  unsigned lowest = 0;
  unsigned highest = 0;
  HARPE_TRY(call("a power limit", api().power_limit_range, &lowest, &highest));
  const Watts factory = HARPE_TRY(milliwatts("a power limit", api().default_power_limit));
  return PowerLimitRange{
      .lowest = Watts{lowest * kMilli}, .highest = Watts{highest * kMilli}, .factory = factory};
}

Result<double> NvmlGpu::temperature() {
  NvmlTemperature newer;
  if (call("temperature", api().temperature_v, &newer).ok()) {
    return static_cast<double>(newer.temperature);
  }
  unsigned degrees = 0;
  HARPE_TRY(call("reading its temperature", api().temperature, 0U, &degrees));
  return static_cast<double>(degrees);
}

Result<double> NvmlGpu::utilisation() {
  NvmlUtilization percent{};
  HARPE_TRY(call("reading its utilisation", api().utilisation, &percent));
  return percent.gpu / 100.0;
}

Result<MemoryUse> NvmlGpu::memory() {
  NvmlMemory memory{};
  HARPE_TRY(call("reading how much of its memory is used", api().memory, &memory));
  return MemoryUse{.used_bytes = memory.used, .total_bytes = memory.total};
}

Result<EventReasons> NvmlGpu::event_reasons() {
  unsigned long long bits = 0;
  HARPE_TRY(call("telling why its clock is low", api().event_reasons, &bits));
  return EventReasons{bits};
}

Result<bool> NvmlGpu::persistence_mode() {
  unsigned enabled = 0;
  HARPE_TRY(call("persistence mode", api().persistence_mode, &enabled));
  return enabled != 0;
}

Result<std::vector<std::int64_t>> NvmlGpu::processes() {
  std::vector<NvmlProcessInfo> found(256);
  auto count = static_cast<unsigned>(found.size());
  HARPE_TRY(call("listing its processes", api().processes, &count, found.data()));
  found.resize(std::min<std::size_t>(count, found.size()));
  std::vector<std::int64_t> ids;
  for (const NvmlProcessInfo& process : found) ids.push_back(process.process);
  return ids;
}

Status NvmlGpu::may_set() const {
  HARPE_TRY(Gpu::may_set());
  if (has_capability(CAP_SYS_ADMIN)) return ok_status();
  return nvml_->error(kNvmlNoPermission, "setting clocks and limits");
}

Status NvmlGpu::set_locked_clocks(ClockDomain domain, ClockRange range) {
  const std::string what = std::string("locking its ") + domain_name(domain);
  if (range.lowest.value < 0 || range.highest < range.lowest) {
    return Error::invalid(what + ": " + std::to_string(range.lowest.value) + ".." +
                          std::to_string(range.highest.value) + " MHz is no range");
  }
  HARPE_TRY(Gpu::may_set());
  return call(
      what,
      domain == ClockDomain::kGraphics ? api().lock_graphics_clocks : api().lock_memory_clocks,
      static_cast<unsigned>(range.lowest.value), static_cast<unsigned>(range.highest.value));
}

Status NvmlGpu::reset_locked_clocks(ClockDomain domain) {
  const std::string what = std::string("resetting its ") + domain_name(domain);
  HARPE_TRY(Gpu::may_set());
  return call(what, domain == ClockDomain::kGraphics ? api().reset_graphics_clocks
                                                     : api().reset_memory_clocks);
}

Status NvmlGpu::set_power_limit(Watts limit) {
  const std::string what = "setting a power limit";
  const double milliwatts = std::round(limit.value / kMilli);
  if (!(milliwatts >= 0) || milliwatts > std::numeric_limits<unsigned>::max()) {
    return Error::invalid(what + ": out of range");
  }
  HARPE_TRY(Gpu::may_set());
  return call(what, api().set_power_limit, static_cast<unsigned>(milliwatts));
}

Status NvmlGpu::set_persistence_mode(bool enabled) {
  return call("setting persistence mode", api().set_persistence_mode, enabled ? 1U : 0U);
}

}  // namespace harpe
