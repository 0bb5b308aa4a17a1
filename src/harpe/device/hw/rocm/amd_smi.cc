// AMD SMI (libamd_smi.so), versions 24 to 26.

#include <array>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/device/hw/rocm/amd_library.h"
#include "harpe/device/hw/rocm/shared_object.h"

namespace harpe::device {
namespace {

// Values of amdsmi_status_t and of the enumerations below, the same in all these versions.
constexpr int kSuccess = 0, kInvalid = 1, kNotSupported = 2, kNotYetImplemented = 3,
              kNoPermission = 10, kOutOfBounds = 17, kNotFound = 31, kDriverNotLoaded = 34;
constexpr std::uint64_t kInitGpus = 2;
constexpr int kProcessorIsGpu = 1;
constexpr int kPerformanceAuto = 0;

using Handle = void*;

struct AmdsmiApi {
  int (*init)(std::uint64_t) = nullptr;
  int (*shut_down)() = nullptr;
  int (*status_text)(int, const char**) = nullptr;
  int (*sockets)(std::uint32_t*, Handle*) = nullptr;
  int (*processors)(Handle, std::uint32_t*, Handle*) = nullptr;
  int (*processor_type)(Handle, int*) = nullptr;
  int (*bdf)(Handle, std::uint64_t*) = nullptr;
  int (*asic_info)(Handle, void*) = nullptr;
  int (*energy)(Handle, std::uint64_t*, float*, std::uint64_t*) = nullptr;
  int (*set_power_cap)(Handle, std::uint32_t, std::uint64_t) = nullptr;
  int (*set_determinism)(Handle, std::uint64_t) = nullptr;
  int (*set_performance_level)(Handle, int) = nullptr;
};

AmdsmiApi find_amdsmi_functions(const SharedObject& library) {
  AmdsmiApi api;
  library.find(api.init, "amdsmi_init");
  library.find(api.shut_down, "amdsmi_shut_down");
  library.find(api.status_text, "amdsmi_status_code_to_string");
  library.find(api.sockets, "amdsmi_get_socket_handles");
  library.find(api.processors, "amdsmi_get_processor_handles");
  library.find(api.processor_type, "amdsmi_get_processor_type");
  library.find(api.bdf, "amdsmi_get_gpu_device_bdf");
  library.find(api.asic_info, "amdsmi_get_gpu_asic_info");
  library.find(api.energy, "amdsmi_get_energy_count");
  library.find(api.set_power_cap, "amdsmi_set_power_cap");
  library.find(api.set_determinism, "amdsmi_set_gpu_perf_determinism_mode");
  library.find(api.set_performance_level, "amdsmi_set_gpu_perf_level");
  return api;
}

ErrorCode code_of(int status) {
  switch (status) {
    case kInvalid:
    case kOutOfBounds:
      return ErrorCode::kInvalidInput;
    case kNotSupported:
    case kNotYetImplemented:
      return ErrorCode::kNotSupported;
    case kNoPermission:
      return ErrorCode::kNoPermission;
    case kNotFound:
      return ErrorCode::kNotFound;
    default:
      return ErrorCode::kUnavailable;
  }
}

class AmdSmi final : public AmdLibrary {
 public:
  explicit AmdSmi(SharedObject library)
      : library_(std::move(library)), api_(find_amdsmi_functions(library_)) {}
  ~AmdSmi() override {
    if (started_ && api_.shut_down != nullptr) api_.shut_down();
  }
  AmdSmi(const AmdSmi&) = delete;
  AmdSmi& operator=(const AmdSmi&) = delete;

  Status start() {
    if (api_.init == nullptr || api_.sockets == nullptr || api_.processors == nullptr ||
        api_.bdf == nullptr) {
      return Error::of(ErrorCode::kNotSupported, "this is not AMD SMI, or too old a version");
    }
    HARPE_TRY(check(api_.init(kInitGpus), "AMD SMI cannot start"));
    started_ = true;
    return find_gpus();
  }

  const char* name() const override { return "AMD SMI"; }
  int gpus() const override { return static_cast<int>(handles_.size()); }

  Result<std::string> pci(int gpu) override {
    // function 3 bits, device 5, bus 8, domain 48.
    std::uint64_t bdf = 0;
    HARPE_TRY(call("the PCI address", api_.bdf, gpu, &bdf));
    return pci_text(bdf >> 16, static_cast<unsigned>(bdf >> 8 & 0xff),
                    static_cast<unsigned>(bdf >> 3 & 0x1f), static_cast<unsigned>(bdf & 7));
  }

  std::string model(int gpu) override {
    // A structure of other size in each version, which begins with the name in all of them.
    std::array<char, 16384> info{};
    if (!call("its name", api_.asic_info, gpu, static_cast<void*>(info.data())).ok()) return {};
    info[255] = 0;
    return info.data();
  }

  Result<Joules> energy(int gpu) override {
    std::uint64_t count = 0;
    std::uint64_t timestamp = 0;
    float microjoules = 0;
    HARPE_TRY(call("reading its energy", api_.energy, gpu, &count, &microjoules, &timestamp));
    return Joules{static_cast<double>(count) * static_cast<double>(microjoules) * 1e-6};
  }

  Status set_power_limit(int gpu, std::uint64_t microwatts) override {
    return call("setting a power limit", api_.set_power_cap, gpu, std::uint32_t{0}, microwatts);
  }
  Status set_highest_clock(int gpu, std::uint64_t megahertz) override {
    return call("limiting its clock", api_.set_determinism, gpu, megahertz);
  }
  Status reset_clock(int gpu) override {
    return call("resetting its clock", api_.set_performance_level, gpu, kPerformanceAuto);
  }

 private:
  Status find_gpus() {
    std::uint32_t count = 0;
    HARPE_TRY(check(api_.sockets(&count, nullptr), "the GPUs cannot be counted"));
    std::vector<Handle> sockets(count);
    HARPE_TRY(check(api_.sockets(&count, sockets.data()), "the GPUs cannot be listed"));
    for (const Handle socket : sockets) {
      std::uint32_t processors = 0;
      if (api_.processors(socket, &processors, nullptr) != kSuccess) continue;
      std::vector<Handle> found(processors);
      if (api_.processors(socket, &processors, found.data()) != kSuccess) continue;
      for (const Handle handle : found) {
        int type = kProcessorIsGpu;
        if (api_.processor_type != nullptr) api_.processor_type(handle, &type);
        if (type == kProcessorIsGpu) handles_.push_back(handle);
      }
    }
    return ok_status();
  }

  Status check(int status, const std::string& attempted) const {
    if (status == kSuccess) return ok_status();
    const char* words = nullptr;
    if (api_.status_text != nullptr) api_.status_text(status, &words);
    std::string message = attempted + ": ";
    message += words == nullptr ? "AMD SMI status " + std::to_string(status) : std::string(words);
    if (status == kNoPermission) message += std::string("; ") + kAmdRemedy;
    if (status == kDriverNotLoaded) message += "; load the kernel driver (modprobe amdgpu)";
    return Error::of(code_of(status), std::move(message));
  }

  template <class... Parameters, class... Arguments>
  Status call(const char* what, int (*function)(Handle, Parameters...), int gpu,
              Arguments... arguments) {
    if (function == nullptr) return check(kNotSupported, what);
    const MutexLock lock(mutex_);
    return check(function(handles_[static_cast<std::size_t>(gpu)], arguments...), what);
  }

  SharedObject library_;
  AmdsmiApi api_;
  bool started_ = false;
  std::vector<Handle> handles_;
  Mutex mutex_;
};

}  // namespace

Result<std::shared_ptr<AmdLibrary>> load_amd_smi(const std::string& library) {
  SharedObject object(library);
  if (!object.ok()) return std::shared_ptr<AmdLibrary>{};
  auto smi = std::make_shared<AmdSmi>(std::move(object));
  HARPE_TRY(smi->start());
  return std::shared_ptr<AmdLibrary>(std::move(smi));
}

}  // namespace harpe::device
