#include "harpe/device/hw/nvml/nvml.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/device/hw/device.h"
#include "harpe/device/hw/nvml/nvml_library.h"

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

/// Returns true for the Ampere chips whose "power usage" is the present power.
bool is_ga100(const std::string& name) {
  return name.find("A100") != std::string::npos || name.find("A800") != std::string::npos ||
         name.find("A30") != std::string::npos;
}

/// Reads a list from NVML. `fill(count, entries)` sets both and returns an NVML result, which this
/// function returns.
template <class Fill>
int fill_list(std::vector<unsigned>& list, Fill fill) {
  // More entries than any GPU has: NVML writes no more than fit.
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

/// One NVIDIA GPU through NVML.
///
/// Power: fields 186 (instant) and 185 (average) if the driver has them for the GPU alone. On
/// superchips whose driver meters only the module (GH200), those of the module: see `power_scope`.
/// Older drivers have only "power usage": an average over a second on Ampere and later except
/// GA100, the present power before (NVML reference, nvmlDeviceGetPowerUsage).
///
/// A GPU in MIG mode can be read as a whole. Its clock and power limit are shared by all instances
/// and are not set.
class NvmlGpu final : public Gpu {
 public:
  /// Reads the identity of a GPU. Fails if the GPU is lost or this user may not use it.
  static Result<std::unique_ptr<NvmlGpu>> open(std::shared_ptr<const NvmlLibrary> nvml, int index) {
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

  const GpuIdentity& identity() const override { return identity_; }
  void set_index(int index) override { identity_.index = index; }
  PowerScope power_scope() const override { return scope_; }
  std::filesystem::path device_file() const override { return device_file_; }

  Result<Joules> total_energy() override {
    const std::string what = "reading its energy";
    if (has_module_energy_) {
      const double millijoules = HARPE_TRY(field(kNvmlFieldEnergy, kNvmlScopeModule, what));
      return Joules{millijoules * kMilli};
    }
    unsigned long long millijoules = 0;
    HARPE_TRY(call(what, api().total_energy, &millijoules));
    return Joules{static_cast<double>(millijoules) * kMilli};
  }

  Result<Watts> instant_power() override {
    const std::string what = "reading its power";
    const unsigned scope = scope_ == PowerScope::kModule ? kNvmlScopeModule : kNvmlScopeGpu;
    if (!has_instant_field_ && scope_ == PowerScope::kGpu) {
      return milliwatts(what, api().power_usage);
    }
    const double power = HARPE_TRY(
        field(has_instant_field_ ? kNvmlFieldPowerInstant : kNvmlFieldPowerAverage, scope, what));
    return Watts{power * kMilli};
  }

  Result<Watts> average_power() override {
    const std::string what = "reading its average power";
    if (has_average_field_) {
      const unsigned scope = scope_ == PowerScope::kModule ? kNvmlScopeModule : kNvmlScopeGpu;
      const double power = HARPE_TRY(field(kNvmlFieldPowerAverage, scope, what));
      return Watts{power * kMilli};
    }
    if (!usage_is_average_ || scope_ == PowerScope::kModule) return not_supported(what);
    return milliwatts(what, api().power_usage);
  }

  Result<Megahertz> clock(ClockDomain domain) override {
    unsigned megahertz = 0;
    HARPE_TRY(call(std::string("reading its ") + domain_name(domain), api().clock,
                   domain_number(domain), &megahertz));
    return Megahertz{static_cast<int>(megahertz)};
  }

  /// Returns the graphics clocks for the highest memory clock, which has all of them. For the
  /// present memory clock, which an idle GPU lowers, NVML lists only a few.
  Result<std::vector<Megahertz>> supported_clocks(ClockDomain domain) override {
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

  Result<Watts> power_limit() override { return milliwatts("a power limit", api().power_limit); }

  Result<Watts> enforced_power_limit() override {
    return milliwatts("telling its enforced power limit", api().enforced_power_limit);
  }

  Result<PowerLimitRange> power_limit_range() override {
    unsigned lowest = 0;
    unsigned highest = 0;
    HARPE_TRY(call("a power limit", api().power_limit_range, &lowest, &highest));
    const Watts factory = HARPE_TRY(milliwatts("a power limit", api().default_power_limit));
    return PowerLimitRange{
        .lowest = Watts{lowest * kMilli}, .highest = Watts{highest * kMilli}, .factory = factory};
  }

  Result<double> temperature() override {
    NvmlTemperature newer;
    if (call("temperature", api().temperature_v, &newer).ok()) {
      return static_cast<double>(newer.temperature);
    }
    unsigned degrees = 0;
    HARPE_TRY(call("reading its temperature", api().temperature, 0U, &degrees));
    return static_cast<double>(degrees);
  }

  Result<double> utilisation() override {
    NvmlUtilization percent{};
    HARPE_TRY(call("reading its utilisation", api().utilisation, &percent));
    return percent.gpu / 100.0;
  }

  Result<MemoryUse> memory() override {
    NvmlMemory memory{};
    HARPE_TRY(call("reading how much of its memory is used", api().memory, &memory));
    return MemoryUse{.used_bytes = memory.used, .total_bytes = memory.total};
  }

  Result<EventReasons> event_reasons() override {
    unsigned long long bits = 0;
    HARPE_TRY(call("telling why its clock is low", api().event_reasons, &bits));
    return EventReasons{bits};
  }

  Result<bool> persistence_mode() override {
    unsigned enabled = 0;
    HARPE_TRY(call("persistence mode", api().persistence_mode, &enabled));
    return enabled != 0;
  }

  /// the first 256
  Result<std::vector<std::int64_t>> processes() override {
    std::vector<NvmlProcessInfo> found(256);
    auto count = static_cast<unsigned>(found.size());
    HARPE_TRY(call("listing its processes", api().processes, &count, found.data()));
    found.resize(std::min<std::size_t>(count, found.size()));
    std::vector<std::int64_t> ids;
    for (const NvmlProcessInfo& process : found) ids.push_back(process.process);
    return ids;
  }

  Status may_set() const override {
    HARPE_TRY(Gpu::may_set());
    if (has_capability(CAP_SYS_ADMIN)) return ok_status();
    return nvml_->error(kNvmlNoPermission, "setting clocks and limits");
  }

  Status set_locked_clocks(ClockDomain domain, ClockRange range) override {
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

  Status reset_locked_clocks(ClockDomain domain) override {
    const std::string what = std::string("resetting its ") + domain_name(domain);
    HARPE_TRY(Gpu::may_set());
    return call(what, domain == ClockDomain::kGraphics ? api().reset_graphics_clocks
                                                       : api().reset_memory_clocks);
  }

  Status set_power_limit(Watts limit) override {
    const std::string what = "setting a power limit";
    const double milliwatts = std::round(limit.value / kMilli);
    if (!(milliwatts >= 0) || milliwatts > std::numeric_limits<unsigned>::max()) {
      return Error::invalid(what + ": out of range");
    }
    HARPE_TRY(Gpu::may_set());
    return call(what, api().set_power_limit, static_cast<unsigned>(milliwatts));
  }

  Status set_persistence_mode(bool enabled) override {
    return call("setting persistence mode", api().set_persistence_mode, enabled ? 1U : 0U);
  }

 private:
  NvmlGpu(std::shared_ptr<const NvmlLibrary> nvml, NvmlDevice device)
      : nvml_(std::move(nvml)), device_(device) {}

  void read_identity() {
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

  void find_power_source() {
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

  const NvmlApi& api() const { return nvml_->api(); }

  /// Calls a function that may be missing; `what` completes "does not support ..." and "cannot
  /// ...".
  template <class... Parameters, class... Arguments>
  Status call(const std::string& what, int (*function)(NvmlDevice, Parameters...),
              Arguments... arguments) const {
    if (function == nullptr) return not_supported(what);
    const int result = function(device_, arguments...);
    if (result == kNvmlSuccess) return ok_status();
    if (result == kNvmlNotSupported) return not_supported(what);
    return nvml_->error(result,
                        identity_.name + " (GPU " + std::to_string(identity_.index) + "): " + what);
  }

  Result<double> field(unsigned id, unsigned scope, const std::string& what) const {
    NvmlFieldValue value;
    value.field = id;
    value.scope = scope;
    HARPE_TRY(call(what, api().field_values, 1, &value));
    if (value.result == kNvmlNotSupported || value.result == kNvmlInvalidArgument) {
      return not_supported(what);  // drivers say either of fields they do not know
    }
    if (value.result != kNvmlSuccess)
      return nvml_->error(value.result, identity_.name + ": " + what);
    const double number = number_in(value);
    if (!std::isfinite(number)) return not_supported(what);
    return number;
  }

  Result<Watts> milliwatts(const std::string& what, int (*function)(NvmlDevice, unsigned*)) const {
    unsigned milliwatts = 0;
    HARPE_TRY(call(what, function, &milliwatts));
    return Watts{milliwatts * kMilli};
  }

  Result<std::vector<Megahertz>> memory_clocks() const {
    if (api().memory_clocks == nullptr) return not_supported("listing its memory clocks");
    std::vector<unsigned> list;
    const int result = fill_list(list, [this](unsigned* count, unsigned* entries) {
      return api().memory_clocks(device_, count, entries);
    });
    if (result == kNvmlNotSupported) return not_supported("listing its memory clocks");
    if (result != kNvmlSuccess) return nvml_->error(result, identity_.name + ": memory clocks");
    return rising(list);
  }

  std::shared_ptr<const NvmlLibrary> nvml_;
  NvmlDevice device_;
  GpuIdentity identity_;
  std::filesystem::path device_file_;
  PowerScope scope_ = PowerScope::kGpu;
  bool has_instant_field_ = false;
  bool has_average_field_ = false;
  bool usage_is_average_ = false;
  bool has_module_energy_ = false;
};

}  // namespace

NvmlDevices open_nvml(const std::string& library) {
  NvmlDevices devices{.gpus = {}, .state = {.name = "nvml", .available = false, .detail = {}}};
  Result<std::shared_ptr<const NvmlLibrary>> loaded = NvmlLibrary::load(library);
  if (!loaded.ok()) {
    const bool missing = loaded.error().code == ErrorCode::kNotFound;
    devices.state.detail = (missing ? "no NVIDIA driver: " : "") + loaded.error().text();
    return devices;
  }
  const std::shared_ptr<const NvmlLibrary>& nvml = *loaded;
  unsigned count = 0;
  if (const int result = nvml->api().device_count(&count); result != kNvmlSuccess) {
    devices.state.detail = nvml->error(result, "the GPUs cannot be counted").text();
    return devices;
  }
  devices.state.available = true;
  const std::string version = nvml->driver_version();
  devices.state.detail = version.empty() ? "driver of unknown version" : "driver " + version;
  for (unsigned i = 0; i < count; ++i) {
    auto gpu = NvmlGpu::open(nvml, static_cast<int>(i));
    if (gpu.ok()) {
      devices.gpus.push_back(*std::move(gpu));
    } else {
      devices.state.detail += "; " + gpu.error().text();
    }
  }
  return devices;
}

}  // namespace harpe
