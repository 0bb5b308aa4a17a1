#include "harpe/device/hw/nvml/nvml.h"

#include <dlfcn.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/device/hw/device.h"
#include "harpe/device/hw/nvml/nvml_api.h"

namespace harpe::device {
namespace {

/// Sets `function` to the first of `names` that the library has; newest version first.
template <class Function>
void find(void* library, Function*& function, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    function = reinterpret_cast<Function*>(::dlsym(library, name));
    if (function != nullptr) return;
  }
}

NvmlApi find_nvml_functions(void* library) {
  NvmlApi api;
  const auto load = [library](auto*& function, std::initializer_list<const char*> names) {
    find(library, function, names);
  };
  load(api.init, {"nvmlInit_v2", "nvmlInit"});
  load(api.shutdown, {"nvmlShutdown"});
  load(api.error_string, {"nvmlErrorString"});
  load(api.driver_version, {"nvmlSystemGetDriverVersion"});
  load(api.device_count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  load(api.device_by_index, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  load(api.name, {"nvmlDeviceGetName"});
  load(api.uuid, {"nvmlDeviceGetUUID"});
  load(api.pci_info, {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2"});
  load(api.mig_mode, {"nvmlDeviceGetMigMode"});
  load(api.cores, {"nvmlDeviceGetNumGpuCores"});
  load(api.minor_number, {"nvmlDeviceGetMinorNumber"});
  load(api.architecture, {"nvmlDeviceGetArchitecture"});
  load(api.total_energy, {"nvmlDeviceGetTotalEnergyConsumption"});
  load(api.power_usage, {"nvmlDeviceGetPowerUsage"});
  load(api.field_values, {"nvmlDeviceGetFieldValues"});
  load(api.clock, {"nvmlDeviceGetClockInfo"});
  load(api.highest_clock, {"nvmlDeviceGetMaxClockInfo"});
  load(api.memory_clocks, {"nvmlDeviceGetSupportedMemoryClocks"});
  load(api.graphics_clocks, {"nvmlDeviceGetSupportedGraphicsClocks"});
  load(api.power_limit, {"nvmlDeviceGetPowerManagementLimit"});
  load(api.enforced_power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  load(api.power_limit_range, {"nvmlDeviceGetPowerManagementLimitConstraints"});
  load(api.default_power_limit, {"nvmlDeviceGetPowerManagementDefaultLimit"});
  load(api.temperature_v, {"nvmlDeviceGetTemperatureV"});
  load(api.temperature, {"nvmlDeviceGetTemperature"});
  load(api.utilisation, {"nvmlDeviceGetUtilizationRates"});
  load(api.memory, {"nvmlDeviceGetMemoryInfo"});
  load(api.event_reasons,
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  load(api.persistence_mode, {"nvmlDeviceGetPersistenceMode"});
  load(api.processes,
       {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"});
  load(api.lock_graphics_clocks, {"nvmlDeviceSetGpuLockedClocks"});
  load(api.lock_memory_clocks, {"nvmlDeviceSetMemoryLockedClocks"});
  load(api.reset_graphics_clocks, {"nvmlDeviceResetGpuLockedClocks"});
  load(api.reset_memory_clocks, {"nvmlDeviceResetMemoryLockedClocks"});
  load(api.set_power_limit, {"nvmlDeviceSetPowerManagementLimit"});
  load(api.set_persistence_mode, {"nvmlDeviceSetPersistenceMode"});
  return api;
}

ErrorCode code_of_nvml(int result) {
  switch (result) {
    case kNvmlInvalidArgument:
    case kNvmlFrequencyNotSupported:
      return ErrorCode::kInvalidInput;
    case kNvmlNotSupported:
    case kNvmlFunctionNotFound:
    case kNvmlArgumentVersionMismatch:
    case kNvmlDeprecated:
      return ErrorCode::kNotSupported;
    case kNvmlNoPermission:
      return ErrorCode::kNoPermission;
    case kNvmlNotFound:
      return ErrorCode::kNotFound;
    case kNvmlInUse:
      return ErrorCode::kConflict;
    default:
      return ErrorCode::kUnavailable;
  }
}

const char* remedy(int result) {
  switch (result) {
    case kNvmlNoPermission:
      return "use the agent (harpe agent), or run as root (CAP_SYS_ADMIN)";
    case kNvmlDriverNotLoaded:
      return "load the kernel driver (modprobe nvidia); in a container, start it with GPUs";
    case kNvmlGpuIsLost:
      return "the GPU fell off the bus: look for Xid in the kernel log, restart the machine";
    case kNvmlResetRequired:
      return "reset the GPU (nvidia-smi --gpu-reset) once nothing uses it";
    case kNvmlLibraryMismatch:
      return "the driver was updated: restart the machine, or load the kernel driver again";
    case kNvmlNotReady:
    case kNvmlTimeout:
      return "try again";
    case kNvmlInUse:
      return "another program holds it";
    default:
      return "";
  }
}

/// NVML, loaded and initialised; shut down and unloaded when the last GPU that uses it is
/// destroyed. NVML itself is thread-safe and counts initialisations, so other users of it in this
/// process are not disturbed.
class NvmlLibrary {
 public:
  /// Loads and initialises NVML. Returns `kNotFound` if there is no such library (no NVIDIA
  /// driver), or NVML's error if it cannot be initialised.
  static Result<std::shared_ptr<const NvmlLibrary>> load(const std::string& library) {
    void* handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* reason = ::dlerror();
      return Error::of(ErrorCode::kNotFound, reason == nullptr ? library : reason);
    }
    std::shared_ptr<NvmlLibrary> nvml(new NvmlLibrary(handle));
    const NvmlApi& api = nvml->api_;
    if (api.init == nullptr || api.device_count == nullptr || api.device_by_index == nullptr) {
      return Error::of(ErrorCode::kNotSupported,
                       library + " is not NVML, or too old (before 2013)");
    }
    if (const int result = api.init(); result != kNvmlSuccess) {
      return nvml->error(result, "NVML cannot start");
    }
    nvml->initialised_ = true;
    return std::shared_ptr<const NvmlLibrary>(std::move(nvml));
  }

  ~NvmlLibrary() {
    if (initialised_ && api_.shutdown != nullptr) api_.shutdown();
    ::dlclose(handle_);
  }

  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  const NvmlApi& api() const { return api_; }

  /// Returns the driver's version; empty if it cannot be read.
  std::string driver_version() const {
    std::array<char, 81> text{};
    if (api_.driver_version == nullptr || api_.driver_version(text.data(), 80) != kNvmlSuccess) {
      return {};
    }
    return text.data();
  }

  /// Returns the error for an NVML result other than success: the attempted action, NVML's
  /// description, and a remedy.
  Error error(int result, const std::string& attempted) const {
    const char* words = api_.error_string == nullptr ? nullptr : api_.error_string(result);
    std::string message = attempted + ": ";
    message += words == nullptr ? "NVML error " + std::to_string(result) : std::string(words);
    if (const std::string help = remedy(result); !help.empty()) message += "; " + help;
    return Error::of(code_of_nvml(result), std::move(message));
  }

 private:
  explicit NvmlLibrary(void* handle) : handle_(handle), api_(find_nvml_functions(handle)) {}

  void* handle_;
  bool initialised_ = false;
  NvmlApi api_;
};

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

/// Reads a list from NVML. Returns the NVML result of `fill(count, entries)`, which sets both.
template <class Fill>
int fill_list(std::vector<unsigned>& list, Fill fill) {
  // More entries than any GPU has; NVML writes at most `count` of them.
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

/// Calls of NVML for one GPU. Their errors name the GPU; `what` completes "does not support ..."
/// and "cannot ...".
class NvmlCalls {
 public:
  /// \param identity  must outlive this object
  NvmlCalls(std::shared_ptr<const NvmlLibrary> nvml, NvmlDevice device, const GpuIdentity& identity)
      : nvml_(std::move(nvml)), device_(device), identity_(identity) {}

  const NvmlLibrary& library() const { return *nvml_; }
  NvmlDevice device() const { return device_; }
  const NvmlApi& api() const { return nvml_->api(); }

  /// Calls a function that may be missing.
  template <class... Parameters, class... Arguments>
  Status call(const std::string& what, int (*function)(NvmlDevice, Parameters...),
              Arguments... arguments) const {
    if (function == nullptr) return not_supported(what);
    const int result = function(device_, arguments...);
    if (result == kNvmlSuccess) return ok_status();
    if (result == kNvmlNotSupported) return not_supported(what);
    return nvml_->error(result, name() + ": " + what);
  }

  Result<double> field(unsigned id, unsigned scope, const std::string& what) const {
    NvmlFieldValue value;
    value.field = id;
    value.scope = scope;
    HARPE_TRY(call(what, api().field_values, 1, &value));
    if (value.result == kNvmlNotSupported || value.result == kNvmlInvalidArgument) {
      return not_supported(what);  // drivers return either for unknown fields
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

 private:
  std::string name() const {
    return identity_.name + " (GPU " + std::to_string(identity_.index) + ")";
  }
  Error not_supported(const std::string& what) const {
    return Error::of(ErrorCode::kNotSupported, name() + " does not support " + what);
  }

  std::shared_ptr<const NvmlLibrary> nvml_;
  NvmlDevice device_;
  const GpuIdentity& identity_;
};

/// One NVIDIA GPU through NVML.
///
/// Power: fields 186 (instant) and 185 (average) if the driver has them for the GPU alone. On
/// superchips whose driver meters only the module (GH200), the module's fields: see `power_scope`.
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
      const double millijoules = HARPE_TRY(calls_.field(kNvmlFieldEnergy, kNvmlScopeModule, what));
      return Joules{millijoules * kMilli};
    }
    unsigned long long millijoules = 0;
    HARPE_TRY(calls_.call(what, calls_.api().total_energy, &millijoules));
    return Joules{static_cast<double>(millijoules) * kMilli};
  }

  Result<Watts> instant_power() override {
    const std::string what = "reading its power";
    const unsigned scope = scope_ == PowerScope::kModule ? kNvmlScopeModule : kNvmlScopeGpu;
    if (!has_instant_field_ && scope_ == PowerScope::kGpu) {
      return calls_.milliwatts(what, calls_.api().power_usage);
    }
    const double power = HARPE_TRY(calls_.field(
        has_instant_field_ ? kNvmlFieldPowerInstant : kNvmlFieldPowerAverage, scope, what));
    return Watts{power * kMilli};
  }

  Result<Watts> average_power() override {
    const std::string what = "reading its average power";
    if (has_average_field_) {
      const unsigned scope = scope_ == PowerScope::kModule ? kNvmlScopeModule : kNvmlScopeGpu;
      const double power = HARPE_TRY(calls_.field(kNvmlFieldPowerAverage, scope, what));
      return Watts{power * kMilli};
    }
    if (!usage_is_average_ || scope_ == PowerScope::kModule) return not_supported(what);
    return calls_.milliwatts(what, calls_.api().power_usage);
  }

  Result<Megahertz> clock(ClockDomain domain) override {
    unsigned megahertz = 0;
    HARPE_TRY(calls_.call(std::string("reading its ") + domain_name(domain), calls_.api().clock,
                          domain_number(domain), &megahertz));
    return Megahertz{static_cast<int>(megahertz)};
  }

  /// Returns the graphics clocks for the highest memory clock, which supports all graphics clocks.
  /// For the present memory clock, which an idle GPU lowers, NVML lists only a few.
  Result<std::vector<Megahertz>> supported_clocks(ClockDomain domain) override {
    Result<std::vector<Megahertz>> memory = memory_clocks();
    if (domain == ClockDomain::kMemory || !memory.ok()) return memory;
    if (calls_.api().graphics_clocks == nullptr || memory->empty()) {
      return not_supported("listing its clocks");
    }
    std::vector<unsigned> list;
    const int result = fill_list(list, [&](unsigned* count, unsigned* entries) {
      return calls_.api().graphics_clocks(
          calls_.device(), static_cast<unsigned>(memory->back().value), count, entries);
    });
    if (result == kNvmlNotSupported) return not_supported("listing its clocks");
    if (result != kNvmlSuccess) return calls_.library().error(result, identity_.name + ": clocks");
    return rising(list);
  }

  Result<Watts> power_limit() override {
    return calls_.milliwatts("a power limit", calls_.api().power_limit);
  }

  Result<Watts> enforced_power_limit() override {
    return calls_.milliwatts("reading its enforced power limit", calls_.api().enforced_power_limit);
  }

  Result<PowerLimitRange> power_limit_range() override {
    unsigned lowest = 0;
    unsigned highest = 0;
    HARPE_TRY(calls_.call("a power limit", calls_.api().power_limit_range, &lowest, &highest));
    const Watts factory =
        HARPE_TRY(calls_.milliwatts("a power limit", calls_.api().default_power_limit));
    return PowerLimitRange{
        .lowest = Watts{lowest * kMilli}, .highest = Watts{highest * kMilli}, .factory = factory};
  }

  Result<double> temperature() override {
    NvmlTemperature newer;
    if (calls_.call("temperature", calls_.api().temperature_v, &newer).ok()) {
      return static_cast<double>(newer.temperature);
    }
    unsigned degrees = 0;
    HARPE_TRY(calls_.call("reading its temperature", calls_.api().temperature, 0U, &degrees));
    return static_cast<double>(degrees);
  }

  Result<double> utilisation() override {
    NvmlUtilization percent{};
    HARPE_TRY(calls_.call("reading its utilisation", calls_.api().utilisation, &percent));
    return percent.gpu / 100.0;
  }

  Result<MemoryUse> memory() override {
    NvmlMemory memory{};
    HARPE_TRY(calls_.call("reading how much of its memory is used", calls_.api().memory, &memory));
    return MemoryUse{.used_bytes = memory.used, .total_bytes = memory.total};
  }

  Result<EventReasons> event_reasons() override {
    unsigned long long bits = 0;
    HARPE_TRY(calls_.call("reading why its clock is low", calls_.api().event_reasons, &bits));
    return EventReasons{bits};
  }

  Result<bool> persistence_mode() override {
    unsigned enabled = 0;
    HARPE_TRY(calls_.call("persistence mode", calls_.api().persistence_mode, &enabled));
    return enabled != 0;
  }

  /// Returns the ids of the first 256 processes.
  Result<std::vector<std::int64_t>> processes() override {
    std::vector<NvmlProcessInfo> found(256);
    auto count = static_cast<unsigned>(found.size());
    HARPE_TRY(calls_.call("listing its processes", calls_.api().processes, &count, found.data()));
    found.resize(std::min<std::size_t>(count, found.size()));
    std::vector<std::int64_t> ids;
    for (const NvmlProcessInfo& process : found) ids.push_back(process.process);
    return ids;
  }

  Status may_set() const override {
    HARPE_TRY(Gpu::may_set());
    if (has_capability(CAP_SYS_ADMIN)) return ok_status();
    return calls_.library().error(kNvmlNoPermission, "setting clocks and limits");
  }

  Status set_locked_clocks(ClockDomain domain, ClockRange range) override {
    const std::string what = std::string("locking its ") + domain_name(domain);
    if (range.lowest.value < 0 || range.highest < range.lowest) {
      return Error::invalid(what + ": " + std::to_string(range.lowest.value) + ".." +
                            std::to_string(range.highest.value) + " MHz is not a valid range");
    }
    HARPE_TRY(Gpu::may_set());
    return calls_.call(what,
                       domain == ClockDomain::kGraphics ? calls_.api().lock_graphics_clocks
                                                        : calls_.api().lock_memory_clocks,
                       static_cast<unsigned>(range.lowest.value),
                       static_cast<unsigned>(range.highest.value));
  }

  Status reset_locked_clocks(ClockDomain domain) override {
    const std::string what = std::string("resetting its ") + domain_name(domain);
    HARPE_TRY(Gpu::may_set());
    return calls_.call(what, domain == ClockDomain::kGraphics ? calls_.api().reset_graphics_clocks
                                                              : calls_.api().reset_memory_clocks);
  }

  Status set_power_limit(Watts limit) override {
    const std::string what = "setting a power limit";
    const double milliwatts = std::round(limit.value / kMilli);
    if (!(milliwatts >= 0) || milliwatts > std::numeric_limits<unsigned>::max()) {
      return Error::invalid(what + ": out of range");
    }
    HARPE_TRY(Gpu::may_set());
    return calls_.call(what, calls_.api().set_power_limit, static_cast<unsigned>(milliwatts));
  }

  Status set_persistence_mode(bool enabled) override {
    return calls_.call("setting persistence mode", calls_.api().set_persistence_mode,
                       enabled ? 1U : 0U);
  }

 private:
  NvmlGpu(std::shared_ptr<const NvmlLibrary> nvml, NvmlDevice device)
      : calls_(std::move(nvml), device, identity_) {}

  void read_identity() {
    identity_.backend = "nvml";
    std::array<char, 97> text{};
    constexpr auto kSize = static_cast<unsigned>(text.size() - 1);
    identity_.name = "NVIDIA GPU";
    if (calls_.call("name", calls_.api().name, text.data(), kSize).ok())
      identity_.name = text.data();
    text.fill(0);
    if (calls_.call("UUID", calls_.api().uuid, text.data(), kSize).ok())
      identity_.uuid = text.data();
    NvmlPciInfo pci{};
    if (calls_.call("PCI address", calls_.api().pci_info, &pci).ok()) {
      text.fill(0);
      std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
      identity_.pci = text.data();
    }
    if (identity_.uuid.empty() && !identity_.pci.empty()) identity_.uuid = "GPU-" + identity_.pci;
    unsigned mig = 0;
    unsigned pending = 0;
    identity_.is_mig = calls_.call("MIG", calls_.api().mig_mode, &mig, &pending).ok() && mig == 1;
    unsigned minor_number = 0;
    if (calls_.call("minor number", calls_.api().minor_number, &minor_number).ok()) {
      device_file_ = "/dev/nvidia" + std::to_string(minor_number);
    }
    unsigned cores = 0;
    unsigned highest = 0;
    if (calls_.call("cores", calls_.api().cores, &cores).ok() &&
        calls_.call("clocks", calls_.api().highest_clock, kNvmlClockSm, &highest).ok()) {
      identity_.speed = static_cast<double>(cores) * highest;
    }
  }

  void find_power_source() {
    const auto has = [this](unsigned id, unsigned scope) {
      return calls_.field(id, scope, "power").ok();
    };
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
    usage_is_average_ =
        calls_.call("architecture", calls_.api().architecture, &architecture).ok() &&
        architecture >= kNvmlArchitectureAmpere && !is_ga100(identity_.name);
  }

  Result<std::vector<Megahertz>> memory_clocks() const {
    if (calls_.api().memory_clocks == nullptr) return not_supported("listing its memory clocks");
    std::vector<unsigned> list;
    const int result = fill_list(list, [this](unsigned* count, unsigned* entries) {
      return calls_.api().memory_clocks(calls_.device(), count, entries);
    });
    if (result == kNvmlNotSupported) return not_supported("listing its memory clocks");
    if (result != kNvmlSuccess)
      return calls_.library().error(result, identity_.name + ": memory clocks");
    return rising(list);
  }

  GpuIdentity identity_;
  NvmlCalls calls_;
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

}  // namespace harpe::device
