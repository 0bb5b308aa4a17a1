// ROCm SMI (librocm_smi64.so), for nodes whose ROCm has no AMD SMI yet.

#include <array>

#include "harpe/base/mutex.h"
#include "harpe/device/hw/rocm/amd_library.h"
#include "harpe/device/hw/rocm/shared_object.h"

namespace harpe::device {
namespace {

// Values of rsmi_status_t.
constexpr int kRsmiSuccess = 0, kRsmiInvalid = 1, kRsmiNotSupported = 2, kRsmiNoPermission = 4,
              kRsmiOutOfBounds = 7, kRsmiNotYetImplemented = 9, kRsmiNotFound = 10;
constexpr int kRsmiPerformanceAuto = 0;

struct RsmiApi {
  int (*init)(std::uint64_t) = nullptr;
  int (*shut_down)() = nullptr;
  int (*status_text)(int, const char**) = nullptr;
  int (*count)(std::uint32_t*) = nullptr;
  int (*bdf)(std::uint32_t, std::uint64_t*) = nullptr;
  int (*device_name)(std::uint32_t, char*, std::size_t) = nullptr;
  int (*energy)(std::uint32_t, std::uint64_t*, float*, std::uint64_t*) = nullptr;
  int (*set_power_cap)(std::uint32_t, std::uint32_t, std::uint64_t) = nullptr;
  int (*set_determinism)(std::uint32_t, std::uint64_t) = nullptr;
  int (*set_performance_level)(std::uint32_t, int) = nullptr;
};

RsmiApi find_rsmi_functions(const SharedObject& library) {
  RsmiApi api;
  library.find(api.init, "rsmi_init");
  library.find(api.shut_down, "rsmi_shut_down");
  library.find(api.status_text, "rsmi_status_string");
  library.find(api.count, "rsmi_num_monitor_devices");
  library.find(api.bdf, "rsmi_dev_pci_id_get");
  library.find(api.device_name, "rsmi_dev_name_get");
  library.find(api.energy, "rsmi_dev_energy_count_get");
  library.find(api.set_power_cap, "rsmi_dev_power_cap_set");
  library.find(api.set_determinism, "rsmi_perf_determinism_mode_set");
  library.find(api.set_performance_level, "rsmi_dev_perf_level_set");
  return api;
}

ErrorCode code_of_rsmi(int status) {
  switch (status) {
    case kRsmiInvalid:
    case kRsmiOutOfBounds:
      return ErrorCode::kInvalidInput;
    case kRsmiNotSupported:
    case kRsmiNotYetImplemented:
      return ErrorCode::kNotSupported;
    case kRsmiNoPermission:
      return ErrorCode::kNoPermission;
    case kRsmiNotFound:
      return ErrorCode::kNotFound;
    default:
      return ErrorCode::kUnavailable;
  }
}

class RocmSmi final : public AmdLibrary {
 public:
  explicit RocmSmi(SharedObject library)
      : library_(std::move(library)), api_(find_rsmi_functions(library_)) {}
  ~RocmSmi() override {
    if (started_ && api_.shut_down != nullptr) api_.shut_down();
  }
  RocmSmi(const RocmSmi&) = delete;
  RocmSmi& operator=(const RocmSmi&) = delete;

  Status start() {
    if (api_.init == nullptr || api_.count == nullptr || api_.bdf == nullptr) {
      return Error::of(ErrorCode::kNotSupported, "this is not ROCm SMI, or too old a version");
    }
    HARPE_TRY(check(api_.init(0), "ROCm SMI cannot start"));
    started_ = true;
    std::uint32_t count = 0;
    Status status = check(api_.count(&count), "the GPUs cannot be counted");
    gpus_ = static_cast<int>(count);
    return status;
  }

  const char* name() const override { return "ROCm SMI"; }
  int gpus() const override { return gpus_; }

  Result<std::string> pci(int gpu) override {
    // domain 32 bits, partition 4, reserved 12, bus 8, device 5, function 3.
    std::uint64_t bdf = 0;
    HARPE_TRY(call("the PCI address", api_.bdf, gpu, &bdf));
    return pci_text(bdf >> 32, static_cast<unsigned>(bdf >> 8 & 0xff),
                    static_cast<unsigned>(bdf >> 3 & 0x1f), static_cast<unsigned>(bdf & 7));
  }

  std::string model(int gpu) override {
    std::array<char, 256> text{};
    if (!call("its name", api_.device_name, gpu, text.data(), text.size() - 1).ok()) return {};
    return text.data();
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
    return call("resetting its clock", api_.set_performance_level, gpu, kRsmiPerformanceAuto);
  }

 private:
  Status check(int status, const std::string& attempted) const {
    if (status == kRsmiSuccess) return ok_status();
    const char* words = nullptr;
    if (api_.status_text != nullptr) api_.status_text(status, &words);
    std::string message = attempted + ": ";
    message += words == nullptr ? "ROCm SMI status " + std::to_string(status) : std::string(words);
    if (status == kRsmiNoPermission) message += std::string("; ") + kAmdRemedy;
    return Error::of(code_of_rsmi(status), std::move(message));
  }

  template <class... Parameters, class... Arguments>
  Status call(const char* what, int (*function)(std::uint32_t, Parameters...), int gpu,
              Arguments... arguments) {
    if (function == nullptr) return check(kRsmiNotSupported, what);
    const MutexLock lock(mutex_);
    return check(function(static_cast<std::uint32_t>(gpu), arguments...), what);
  }

  SharedObject library_;
  RsmiApi api_;
  bool started_ = false;
  int gpus_ = 0;
  Mutex mutex_;
};

}  // namespace

Result<std::shared_ptr<AmdLibrary>> load_rocm_smi(const std::string& library) {
  SharedObject object(library);
  if (!object.ok()) return std::shared_ptr<AmdLibrary>{};
  auto smi = std::make_shared<RocmSmi>(std::move(object));
  HARPE_TRY(smi->start());
  return std::shared_ptr<AmdLibrary>(std::move(smi));
}

}  // namespace harpe::device
