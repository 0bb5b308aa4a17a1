#include "harpe/device/hw/sim/gpu_catalogue.h"

#include "harpe/base/text.h"

namespace harpe::device {
namespace {

constexpr std::uint64_t kGibibyte = 1ULL << 30;

/// What no GpuModel says. Sources: docs/simulated-gpus.md.
struct Entry {
  std::string_view name;   ///< in the configuration
  std::string_view model;  ///< of gpu_models()
  std::string_view product;
  double idle_w, lowest_limit_w;
  std::vector<int> memory_clocks;
  std::uint64_t memory_gib;
  double kelvin_per_watt, joule_per_kelvin, reference_c, slowdown_c;
  int cores, major, minor;
  unsigned int pci_device_id;
  bool average_usage;
};

const std::vector<Entry>& catalogue() {
  static const std::vector<Entry> kEntries = {
      {.name = "a100-sxm",
       .model = "a100-sxm",
       .product = "NVIDIA A100-SXM4-80GB",
       .idle_w = 55,
       .lowest_limit_w = 100,
       .memory_clocks = {1593},
       .memory_gib = 80,
       .kelvin_per_watt = 0.08,
       .joule_per_kelvin = 300,
       .reference_c = 60,
       .slowdown_c = 85,
       .cores = 6912,
       .major = 8,
       .minor = 0,
       .pci_device_id = 0x20b2,
       .average_usage = false},
      {.name = "a100-pcie",
       .model = "a100-pcie",
       .product = "NVIDIA A100 80GB PCIe",
       .idle_w = 45,
       .lowest_limit_w = 150,
       .memory_clocks = {1512},
       .memory_gib = 80,
       .kelvin_per_watt = 0.12,
       .joule_per_kelvin = 250,
       .reference_c = 60,
       .slowdown_c = 85,
       .cores = 6912,
       .major = 8,
       .minor = 0,
       .pci_device_id = 0x20b5,
       .average_usage = false},
      {.name = "a40",
       .model = "a40",
       .product = "NVIDIA A40",
       .idle_w = 30,
       .lowest_limit_w = 100,
       .memory_clocks = {405, 5001, 7251},
       .memory_gib = 48,
       .kelvin_per_watt = 0.14,
       .joule_per_kelvin = 250,
       .reference_c = 52,
       .slowdown_c = 88,
       .cores = 10752,
       .major = 8,
       .minor = 6,
       .pci_device_id = 0x2235,
       .average_usage = true},
      {.name = "h100-sxm",
       .model = "h100-sxm",
       .product = "NVIDIA H100 80GB HBM3",
       .idle_w = 70,
       .lowest_limit_w = 200,
       .memory_clocks = {1593, 2619},
       .memory_gib = 80,
       .kelvin_per_watt = 0.055,
       .joule_per_kelvin = 400,
       .reference_c = 60,
       .slowdown_c = 85,
       .cores = 16896,
       .major = 9,
       .minor = 0,
       .pci_device_id = 0x2330,
       .average_usage = true},
      {.name = "h200-sxm",
       .model = "h200-sxm",
       .product = "NVIDIA H200",
       .idle_w = 75,
       .lowest_limit_w = 200,
       .memory_clocks = {1593, 3201},
       .memory_gib = 141,
       .kelvin_per_watt = 0.055,
       .joule_per_kelvin = 400,
       .reference_c = 60,
       .slowdown_c = 85,
       .cores = 16896,
       .major = 9,
       .minor = 0,
       .pci_device_id = 0x2335,
       .average_usage = true},
      {.name = "b200-sxm",
       .model = "b200-sxm",
       .product = "NVIDIA B200",
       .idle_w = 200,
       .lowest_limit_w = 200,
       .memory_clocks = {3402, 3996},
       .memory_gib = 180,
       .kelvin_per_watt = 0.039,
       .joule_per_kelvin = 570,
       .reference_c = 60,
       .slowdown_c = 85,
       .cores = 18944,
       .major = 10,
       .minor = 0,
       .pci_device_id = 0x2901,
       .average_usage = true},
      {.name = "gb200",
       .model = "gb200",
       .product = "NVIDIA GB200",
       .idle_w = 164,
       .lowest_limit_w = 200,
       .memory_clocks = {3402, 3996},
       .memory_gib = 186,
       .kelvin_per_watt = 0.032,
       .joule_per_kelvin = 690,
       .reference_c = 60,
       .slowdown_c = 85,
       .cores = 18944,
       .major = 10,
       .minor = 0,
       .pci_device_id = 0x2941,
       .average_usage = true},
      {.name = "l40s",
       .model = "l40s",
       .product = "NVIDIA L40S",
       .idle_w = 66,
       .lowest_limit_w = 100,
       .memory_clocks = {405, 9001},
       .memory_gib = 48,
       .kelvin_per_watt = 0.12,
       .joule_per_kelvin = 250,
       .reference_c = 52,
       .slowdown_c = 88,
       .cores = 18176,
       .major = 8,
       .minor = 9,
       .pci_device_id = 0x26b9,
       .average_usage = true},
      {.name = "rtx-4090",
       .model = "rtx-4090",
       .product = "NVIDIA GeForce RTX 4090",
       .idle_w = 45,
       .lowest_limit_w = 150,
       .memory_clocks = {405, 10501},
       .memory_gib = 24,
       .kelvin_per_watt = 0.093,
       .joule_per_kelvin = 320,
       .reference_c = 52,
       .slowdown_c = 88,
       .cores = 16384,
       .major = 8,
       .minor = 9,
       .pci_device_id = 0x2684,
       .average_usage = true},
      {.name = "gh200",
       .model = "gh200",
       .product = "NVIDIA GH200 480GB",
       .idle_w = 70,
       .lowest_limit_w = 200,
       .memory_clocks = {1593, 2619},
       .memory_gib = 96,
       .kelvin_per_watt = 0.055,
       .joule_per_kelvin = 400,
       .reference_c = 60,
       .slowdown_c = 85,
       .cores = 16896,
       .major = 9,
       .minor = 0,
       .pci_device_id = 0x2342,
       .average_usage = true},
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
    spec.gpu = *find_gpu_model(entry.model);
    // Steps lead from the lowest clock to the highest: on GB200 from 127 MHz, not 120.
    const int step = spec.gpu.clock_step, highest = spec.gpu.max_clock.value;
    spec.gpu.min_clock = {highest - (highest - spec.gpu.min_clock.value) / step * step};
    spec.name = entry.product;
    spec.idle_power_w = entry.idle_w;
    spec.lowest_limit_w = entry.lowest_limit_w;
    spec.highest_limit_w = spec.gpu.power_limit.value;
    spec.memory_clocks = entry.memory_clocks;
    spec.memory_bytes = entry.memory_gib * kGibibyte;
    spec.kelvin_per_watt = entry.kelvin_per_watt;
    spec.joule_per_kelvin = entry.joule_per_kelvin;
    spec.reference_c = entry.reference_c;
    spec.slowdown_c = entry.slowdown_c;
    spec.hardware_slowdown_c = entry.slowdown_c + 6;
    spec.cores = entry.cores;
    spec.pci_device_id = entry.pci_device_id;
    spec.capability_major = entry.major;
    spec.capability_minor = entry.minor;
    spec.power_usage_is_average = entry.average_usage;
    if (entry.name == "gh200") {
      spec.module_scope = true;
      spec.module_power_w = 110;
    }
    return spec;
  }
  return std::nullopt;
}

}  // namespace harpe::device
