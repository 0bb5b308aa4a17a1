// Any text in the variables or in --gpus gives GPUs that exist, each once, or an error.

#include <array>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "harpe/device/hw/gpu_choice.h"

namespace {

void check(const std::vector<int>& gpus, int count) {
  std::set<int> seen;
  for (const int gpu : gpus) {
    if (gpu < 0 || gpu >= count || !seen.insert(gpu).second) std::abort();
  }
}

}  // namespace

/// Input lines: --gpus, CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER, HIP_VISIBLE_DEVICES,
/// ROCR_VISIBLE_DEVICES.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::array<std::string, 5> lines;
  for (std::string& line : lines) {
    const std::size_t end = text.find('\n');
    line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  std::vector<harpe::GpuIdentity> gpus;
  for (int i = 0; i < 6; ++i) {
    const std::string digit = std::to_string(i);
    gpus.push_back({.index = i,
                    .uuid = "GPU-" + std::string(i < 3 ? "aa" : "b") + digit,
                    .pci = "0000:0" + digit + ":00.0",
                    .name = i < 2 ? "Fast" : "Slow",
                    .backend = i < 4 ? "nvml" : "rocm",
                    .is_mig = i == 3,
                    .speed = i < 2 ? 2.0 : 1.0});
  }
  const harpe::device::VisibilityVariables variables{.cuda_visible_devices = lines[1],
                                                     .cuda_device_order = lines[2],
                                                     .hip_visible_devices = lines[3],
                                                     .rocr_visible_devices = lines[4]};
  if (const auto visible = harpe::device::visible_gpus(gpus, variables); visible.ok())
    check(visible->gpus, 6);
  const auto choice = harpe::device::choose_gpus(lines[0], gpus, variables);
  if (choice.ok()) check(choice->gpus, 6);
  if (!choice.ok() && choice.error().diagnostics.empty()) std::abort();
  const std::string pci = harpe::device::normal_pci_address(lines[0]);
  if (!pci.empty() && harpe::device::normal_pci_address(pci) != pci) std::abort();
  return 0;
}
