#include "harpe/device/hw/sim/gpu_spec.h"

#include "harpe/base/text.h"

namespace harpe::device {
namespace {

constexpr std::uint64_t kGibibyte = 1ULL << 30;

struct Chip {
  int cores, major, minor;
  bool average_usage;
  double reference_c, slowdown_c;  ///< lower and higher on boards with GDDR memory
};
constexpr Chip kGa100{6912, 8, 0, false, 60, 85}, kGa102{10752, 8, 6, true, 52, 88},
    kGh100{16896, 9, 0, true, 60, 85}, kGb100{18944, 10, 0, true, 60, 85},
    kL40s{18176, 8, 9, true, 52, 88}, kRtx4090{16384, 8, 9, true, 52, 88};

/// Properties that a GpuModel does not have. Sources: docs/simulated-gpus.md.
struct Entry {
  std::string_view name;     ///< name in the configuration and in gpu_models()
  std::string_view product;  ///< without "NVIDIA"
  Chip chip;
  unsigned int pci_device_id;
  double idle_w, lowest_limit_w, kelvin_per_watt, joule_per_kelvin;
  std::uint64_t memory_gib;
  std::vector<int> memory_clocks;
};

const std::vector<Entry>& catalogue() {
  // name, product, chip, PCI device, idle W, lowest limit W, K/W, J/K, GiB, memory clocks in MHz
  static const std::vector<Entry> kEntries = {
      {"a100-sxm", "A100-SXM4-80GB", kGa100, 0x20b2, 55, 100, 0.08, 300, 80, {1593}},
      {"a100-pcie", "A100 80GB PCIe", kGa100, 0x20b5, 45, 150, 0.12, 250, 80, {1512}},
      {"a40", "A40", kGa102, 0x2235, 30, 100, 0.14, 250, 48, {405, 5001, 7251}},
      {"h100-sxm", "H100 80GB HBM3", kGh100, 0x2330, 70, 200, 0.055, 400, 80, {1593, 2619}},
      {"h200-sxm", "H200", kGh100, 0x2335, 75, 200, 0.055, 400, 141, {1593, 3201}},
      {"b200-sxm", "B200", kGb100, 0x2901, 200, 200, 0.039, 570, 180, {3402, 3996}},
      {"gb200", "GB200", kGb100, 0x2941, 164, 200, 0.032, 690, 186, {3402, 3996}},
      {"l40s", "L40S", kL40s, 0x26b9, 66, 100, 0.12, 250, 48, {405, 9001}},
      {"rtx-4090", "GeForce RTX 4090", kRtx4090, 0x2684, 45, 150, 0.093, 320, 24, {405, 10501}},
      {"gh200", "GH200 480GB", kGh100, 0x2342, 70, 200, 0.055, 400, 96, {1593, 2619}},
  };
  return kEntries;
}

}  // namespace

std::vector<std::string> simulated_gpu_names() {
  std::vector<std::string> names;
  for (const Entry& entry : catalogue()) names.emplace_back(entry.name);
  return names;
}

std::optional<SimulatedGpuSpec> catalogue_gpu(std::string_view name) {
  for (const Entry& entry : catalogue()) {
    if (entry.name != lower(name)) continue;
    SimulatedGpuSpec spec;
    spec.gpu = *find_gpu_model(entry.name);
    // Whole steps from the lowest clock must reach the highest: on GB200 from 127 MHz, not 120.
    const int step = spec.gpu.clock_step, highest = spec.gpu.max_clock.value;
    spec.gpu.min_clock = {highest - (highest - spec.gpu.min_clock.value) / step * step};
    spec.name = "NVIDIA " + std::string(entry.product);
    spec.idle_power_w = entry.idle_w;
    spec.lowest_limit_w = entry.lowest_limit_w;
    spec.highest_limit_w = spec.gpu.power_limit.value;
    spec.memory_clocks = entry.memory_clocks;
    spec.memory_bytes = entry.memory_gib * kGibibyte;
    spec.kelvin_per_watt = entry.kelvin_per_watt;
    spec.joule_per_kelvin = entry.joule_per_kelvin;
    spec.reference_c = entry.chip.reference_c;
    spec.slowdown_c = entry.chip.slowdown_c;
    spec.hardware_slowdown_c = entry.chip.slowdown_c + 6;
    spec.cores = entry.chip.cores;
    spec.pci_device_id = entry.pci_device_id;
    spec.capability_major = entry.chip.major;
    spec.capability_minor = entry.chip.minor;
    spec.power_usage_is_average = entry.chip.average_usage;
    if (entry.name == "gh200") {
      spec.module_scope = true;
      spec.module_power_w = 110;
    }
    return spec;
  }
  return std::nullopt;
}

}  // namespace harpe::device
