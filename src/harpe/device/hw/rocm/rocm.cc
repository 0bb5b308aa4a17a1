#include "harpe/device/hw/rocm/rocm.h"

#include <utility>

#include "harpe/device/hw/rocm/amd_gpu.h"

namespace harpe {
namespace {

constexpr Seconds kEnergyCheck{0.5};

GpuIdentity identity_of(AmdLibrary& library, int number, const std::string& pci,
                        const AmdSysfs& sysfs) {
  GpuIdentity identity{.index = number, .uuid = {}, .pci = pci, .name = {}, .backend = "rocm"};
  identity.name = library.model(number);
  if (identity.name.empty()) identity.name = "AMD GPU";
  // As ROCm writes it, and ROCR_VISIBLE_DEVICES takes it.
  if (const auto id = sysfs.unique_id()) identity.uuid = "GPU-" + *id;
  return identity;
}

}  // namespace

RocmDevices open_rocm(const std::string& amd_smi, const std::string& rocm_smi,
                      const std::filesystem::path& drm_root, Clock& clock) {
  RocmDevices devices{.gpus = {}, .state = {.name = "rocm", .available = false, .detail = {}}};
  Result<std::shared_ptr<AmdLibrary>> library = AmdLibrary::load(amd_smi, rocm_smi);
  if (!library.ok()) {
    devices.state.detail = library.error().text();
    return devices;
  }
  devices.state.available = true;
  devices.state.detail = (*library)->name();
  std::vector<std::unique_ptr<AmdGpu>> gpus;
  for (int i = 0; i < (*library)->gpus(); ++i) {
    const Result<std::string> pci = (*library)->pci(i);
    if (!pci.ok()) {
      devices.state.detail += "; GPU " + std::to_string(i) + ": " + pci.error().text();
      continue;
    }
    AmdSysfs sysfs(drm_root, *pci);
    GpuIdentity identity = identity_of(**library, i, *pci, sysfs);
    gpus.push_back(std::make_unique<AmdGpu>(*library, i, std::move(identity), std::move(sysfs)));
  }
  if (gpus.empty()) return devices;
  for (const auto& gpu : gpus) gpu->begin_energy_check(clock.now());
  clock.sleep_until(clock.now() + kEnergyCheck);
  for (auto& gpu : gpus) {
    gpu->end_energy_check(clock.now());
    devices.gpus.push_back(std::move(gpu));
  }
  return devices;
}

}  // namespace harpe
