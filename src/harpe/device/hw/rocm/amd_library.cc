#include "harpe/device/hw/rocm/amd_library.h"

#include <dlfcn.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <optional>
#include <utility>

#include "harpe/base/mutex.h"

namespace harpe::device {
namespace {

/// A library opened at run time.
class SharedObject {
 public:
  explicit SharedObject(const std::string& library)
      : handle_(::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL)) {}
  ~SharedObject() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  SharedObject(SharedObject&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;
  SharedObject& operator=(SharedObject&&) = delete;

  bool ok() const { return handle_ != nullptr; }
  /// Sets `function` to the library's function; null if there is none.
  template <class Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(::dlsym(handle_, name));
  }

 private:
  void* handle_;
};

constexpr int kSuccess = 0;
/// Status codes, which differ between the two libraries; -1 if the library has no such status.
struct StatusCodes {
  int invalid, out_of_bounds, not_supported, not_yet_implemented, no_permission, not_found,
      driver_not_loaded;

  ErrorCode code_of(int status) const {
    if (status == invalid || status == out_of_bounds) return ErrorCode::kInvalidInput;
    if (status == not_supported || status == not_yet_implemented) return ErrorCode::kNotSupported;
    if (status == no_permission) return ErrorCode::kNoPermission;
    return status == not_found ? ErrorCode::kNotFound : ErrorCode::kUnavailable;
  }
};

/// Code shared by both libraries, whose functions differ in name and in the type of a handle.
template <class Handle>
class SmiLibrary : public AmdLibrary {
 public:
  ~SmiLibrary() override {
    if (started_ && shut_down_ != nullptr) shut_down_();
  }
  SmiLibrary(const SmiLibrary&) = delete;
  SmiLibrary& operator=(const SmiLibrary&) = delete;

  Status start() {
    if (!complete_) {
      return Error::of(ErrorCode::kNotSupported,
                       "this is not " + std::string(name_) + ", or too old a version");
    }
    HARPE_TRY(check(init_(init_flags_), std::string(name_) + " cannot start"));
    started_ = true;
    return find_gpus();
  }

  const char* name() const override { return name_; }
  int gpus() const override { return static_cast<int>(handles_.size()); }

  Result<std::string> pci(int gpu) override {
    std::uint64_t bdf = 0;
    HARPE_TRY(call("the PCI address", bdf_, gpu, &bdf));
    // 3 bits of function, 5 of device, 8 of bus. The domain begins at bit 16 or 32.
    std::array<char, 40> text{};
    const int length =
        std::snprintf(text.data(), text.size(), "%04" PRIx64 ":%02x:%02x.%x", bdf >> domain_at_,
                      static_cast<unsigned>(bdf >> 8 & 0xff),
                      static_cast<unsigned>(bdf >> 3 & 0x1f), static_cast<unsigned>(bdf & 7));
    return std::string(text.data(), static_cast<std::size_t>(length));
  }

  Result<Joules> energy(int gpu) override {
    std::uint64_t count = 0;
    std::uint64_t timestamp = 0;
    float microjoules = 0;
    HARPE_TRY(call("reading its energy", energy_, gpu, &count, &microjoules, &timestamp));
    return Joules{static_cast<double>(count) * static_cast<double>(microjoules) * 1e-6};
  }

  Status set_power_limit(int gpu, std::uint64_t microwatts) override {
    return call("setting a power limit", set_power_cap_, gpu, std::uint32_t{0}, microwatts);
  }
  Status set_highest_clock(int gpu, std::uint64_t megahertz) override {
    return call("limiting its clock", set_determinism_, gpu, megahertz);
  }
  Status reset_clock(int gpu) override {
    constexpr int kPerformanceAuto = 0;
    return call("resetting its clock", set_performance_level_, gpu, kPerformanceAuto);
  }

 protected:
  SmiLibrary(SharedObject library, const char* name, std::uint64_t init_flags, int domain_at,
             const StatusCodes& codes)
      : library_(std::move(library)),
        name_(name),
        init_flags_(init_flags),
        domain_at_(domain_at),
        codes_(codes) {}

  template <class Function>
  void find(Function*& function, const char* name) {
    library_.find(function, name);
  }
  /// Finds a function that the library must have.
  template <class Function>
  void require(Function*& function, const char* name) {
    find(function, name);
    complete_ = complete_ && function != nullptr;
  }

  /// Fills `handles_`.
  virtual Status find_gpus() = 0;

  Status check(int status, const std::string& attempted) const {
    if (status == kSuccess) return ok_status();
    const char* words = nullptr;
    if (status_text_ != nullptr) status_text_(status, &words);
    std::string message = attempted + ": ";
    message += words == nullptr ? std::string(name_) + " status " + std::to_string(status) : words;
    if (status == codes_.no_permission) message += std::string("; ") + kAmdRemedy;
    if (status == codes_.driver_not_loaded) message += "; load the kernel driver (modprobe amdgpu)";
    return Error::of(codes_.code_of(status), std::move(message));
  }

  template <class... Parameters, class... Arguments>
  Status call(const char* what, int (*function)(Handle, Parameters...), int gpu,
              Arguments... arguments) {
    if (function == nullptr) return check(codes_.not_supported, what);
    const MutexLock lock(mutex_);
    return check(function(handles_[static_cast<std::size_t>(gpu)], arguments...), what);
  }

  int (*init_)(std::uint64_t) = nullptr;
  int (*shut_down_)() = nullptr;
  int (*status_text_)(int, const char**) = nullptr;
  int (*bdf_)(Handle, std::uint64_t*) = nullptr;
  int (*energy_)(Handle, std::uint64_t*, float*, std::uint64_t*) = nullptr;
  int (*set_power_cap_)(Handle, std::uint32_t, std::uint64_t) = nullptr;
  int (*set_determinism_)(Handle, std::uint64_t) = nullptr;
  int (*set_performance_level_)(Handle, int) = nullptr;
  std::vector<Handle> handles_;

 private:
  SharedObject library_;
  const char* name_;
  std::uint64_t init_flags_;
  int domain_at_;  ///< first bit of the domain in a PCI address
  StatusCodes codes_;
  bool complete_ = true, started_ = false;
  Mutex mutex_;
};

/// AMD SMI (libamd_smi.so), versions 24 to 26. Values are those of amdsmi_status_t and other
/// enumerations, the same in all these versions.
class AmdSmi final : public SmiLibrary<void*> {
 public:
  explicit AmdSmi(SharedObject library)
      : SmiLibrary(std::move(library), "AMD SMI", kInitGpus, 16,
                   {.invalid = 1,
                    .out_of_bounds = 17,
                    .not_supported = 2,
                    .not_yet_implemented = 3,
                    .no_permission = 10,
                    .not_found = 31,
                    .driver_not_loaded = 34}) {
    require(init_, "amdsmi_init");
    require(bdf_, "amdsmi_get_gpu_device_bdf");
    require(sockets_, "amdsmi_get_socket_handles");
    require(processors_, "amdsmi_get_processor_handles");
    find(shut_down_, "amdsmi_shut_down");
    find(status_text_, "amdsmi_status_code_to_string");
    find(processor_type_, "amdsmi_get_processor_type");
    find(asic_info_, "amdsmi_get_gpu_asic_info");
    find(energy_, "amdsmi_get_energy_count");
    find(set_power_cap_, "amdsmi_set_power_cap");
    find(set_determinism_, "amdsmi_set_gpu_perf_determinism_mode");
    find(set_performance_level_, "amdsmi_set_gpu_perf_level");
  }

  std::string model(int gpu) override {
    // The size of this structure depends on the version, but it always begins with the name.
    std::array<char, 16384> info{};
    if (!call("its name", asic_info_, gpu, static_cast<void*>(info.data())).ok()) return {};
    info[255] = 0;
    return info.data();
  }

 private:
  using Handle = void*;
  static constexpr std::uint64_t kInitGpus = 2;
  static constexpr int kProcessorIsGpu = 1;

  Status find_gpus() override {
    std::uint32_t count = 0;
    HARPE_TRY(check(sockets_(&count, nullptr), "the GPUs cannot be counted"));
    std::vector<Handle> sockets(count);
    HARPE_TRY(check(sockets_(&count, sockets.data()), "the GPUs cannot be listed"));
    for (const Handle socket : sockets) {
      std::uint32_t processors = 0;
      if (processors_(socket, &processors, nullptr) != kSuccess) continue;
      std::vector<Handle> found(processors);
      if (processors_(socket, &processors, found.data()) != kSuccess) continue;
      for (const Handle handle : found) {
        int type = kProcessorIsGpu;
        if (processor_type_ != nullptr) processor_type_(handle, &type);
        if (type == kProcessorIsGpu) handles_.push_back(handle);
      }
    }
    return ok_status();
  }

  int (*sockets_)(std::uint32_t*, Handle*) = nullptr;
  int (*processors_)(Handle, std::uint32_t*, Handle*) = nullptr;
  int (*processor_type_)(Handle, int*) = nullptr;
  int (*asic_info_)(Handle, void*) = nullptr;
};

/// ROCm SMI (librocm_smi64.so), for nodes whose ROCm has no AMD SMI yet. Values are those of
/// rsmi_status_t.
class RocmSmi final : public SmiLibrary<std::uint32_t> {
 public:
  explicit RocmSmi(SharedObject library)
      : SmiLibrary(std::move(library), "ROCm SMI", 0, 32,
                   {.invalid = 1,
                    .out_of_bounds = 7,
                    .not_supported = 2,
                    .not_yet_implemented = 9,
                    .no_permission = 4,
                    .not_found = 10,
                    .driver_not_loaded = -1}) {
    require(init_, "rsmi_init");
    require(bdf_, "rsmi_dev_pci_id_get");
    require(count_, "rsmi_num_monitor_devices");
    find(shut_down_, "rsmi_shut_down");
    find(status_text_, "rsmi_status_string");
    find(device_name_, "rsmi_dev_name_get");
    find(energy_, "rsmi_dev_energy_count_get");
    find(set_power_cap_, "rsmi_dev_power_cap_set");
    find(set_determinism_, "rsmi_perf_determinism_mode_set");
    find(set_performance_level_, "rsmi_dev_perf_level_set");
  }

  std::string model(int gpu) override {
    std::array<char, 256> text{};
    if (!call("its name", device_name_, gpu, text.data(), text.size() - 1).ok()) return {};
    return text.data();
  }

 private:
  Status find_gpus() override {
    std::uint32_t count = 0;
    HARPE_TRY(check(count_(&count), "the GPUs cannot be counted"));
    for (std::uint32_t gpu = 0; gpu < count; ++gpu) handles_.push_back(gpu);
    return ok_status();
  }

  int (*count_)(std::uint32_t*) = nullptr;
  int (*device_name_)(std::uint32_t, char*, std::size_t) = nullptr;
};

/// Loads and starts a library; null if there is no such library.
template <class Smi>
Result<std::shared_ptr<AmdLibrary>> load_smi(const std::string& library) {
  SharedObject object(library);
  if (!object.ok()) return std::shared_ptr<AmdLibrary>{};
  auto smi = std::make_shared<Smi>(std::move(object));
  HARPE_TRY(smi->start());
  return std::shared_ptr<AmdLibrary>(std::move(smi));
}

}  // namespace

Result<std::shared_ptr<AmdLibrary>> AmdLibrary::load(const std::string& amd_smi,
                                                     const std::string& rocm_smi) {
  std::string tried;
  std::optional<Error> refused;
  for (const auto& [library, load] :
       {std::pair{amd_smi, &load_smi<AmdSmi>}, std::pair{rocm_smi, &load_smi<RocmSmi>}}) {
    if (library.empty()) continue;
    Result<std::shared_ptr<AmdLibrary>> loaded = load(library);
    if (!loaded.ok()) {
      if (!refused) refused = std::move(loaded).error();
    } else if (*loaded != nullptr) {
      return loaded;
    }
    tried += (tried.empty() ? "" : " and ") + library;
  }
  if (refused) return *std::move(refused);
  return Error::of(ErrorCode::kNotFound, "no AMD driver library: " + tried + " not found");
}

}  // namespace harpe::device
