#include "harpe/gpu_model/gpu_model.h"

#include <algorithm>
#include <optional>

#include "harpe/base/text.h"

namespace harpe {
namespace {

double voltage(const GpuModel& gpu, double x) {
  const double rise = std::max(0.0, x - gpu.knee) / (1 - gpu.knee);
  return gpu.min_voltage + (1 - gpu.min_voltage) * rise;
}

}  // namespace

double dynamic_share(const GpuModel& gpu, double x) {
  const double v = voltage(gpu, x);
  return x * v * v;
}

double demanded_power(const GpuModel& gpu, double x) {
  // In this order of products, which decides the last digit.
  const double v = voltage(gpu, x);
  return gpu.static_power.value + gpu.dynamic_power.value * x * v * v;
}

double limited(double demand, double softness) {
  if (demand <= 1 - softness) return demand;
  if (demand >= 1 + softness) return 1;
  const double excess = demand - (1 - softness);
  return demand - excess * excess / (4 * softness);
}

double throttled_clock(const GpuModel& gpu, double x) {
  const double limit = gpu.power_limit.value;
  const double allowed = limit * limited(demanded_power(gpu, x) / limit, gpu.limit_softness);
  double low = std::min(x, std::max(gpu.throttle_floor, gpu.min_clock).value /
                               static_cast<double>(gpu.max_clock.value));
  double high = x;
  if (demanded_power(gpu, high) <= allowed) return high;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (demanded_power(gpu, middle) <= allowed ? low : high) = middle;
  }
  return low;
}

double throttled_speed(const GpuModel& gpu, double asked, double given) {
  return given * (1 - gpu.throttle_loss * (asked - given));
}

const std::vector<GpuModel>& gpu_models() {
  static const std::vector<GpuModel> kModels = {
      {.name = "a100-sxm",
       .description = "NVIDIA A100 SXM, matched to the stage profiles of GPT-3 175B and Bloom "
                      "176B measured for Perseus (SOSP 2024)",
       .min_clock = {210},
       .max_clock = {1410},
       .static_power = {55},
       .dynamic_power = {450},
       .knee = 0.77,
       .min_voltage = 0.79,
       .memory_bound = 0.09,
       .power_limit = {467},
       .limit_softness = 0.07,
       .blocking_power = {83.64}},
      {.name = "a100-pcie",
       .description = "NVIDIA A100 PCIe 80 GB (300 W), matched to the runs of five models with 1.3 "
                      "to 3 billion parameters measured for Perseus (SOSP 2024)",
       .min_clock = {210},
       .max_clock = {1410},
       .static_power = {71},
       .dynamic_power = {337},
       .knee = 0.745,
       .min_voltage = 0.83,
       .memory_bound = 0.16,
       .power_limit = {300},
       .limit_softness = 0.14,
       .throttle_loss = 0.06,
       .blocking_power = {83.64}},
      {.name = "a40",
       .description = "NVIDIA A40 (300 W), matched to the power-limit sweep of ResNet-50 training "
                      "published with Zeus (NSDI 2023)",
       .min_clock = {210},
       .max_clock = {1740},
       .static_power = {82.7},
       .dynamic_power = {177.4},
       .knee = 0.931,
       .min_voltage = 0.788,
       .memory_bound = 0.1,
       .power_limit = {300},
       .limit_softness = 0.167,
       .throttle_floor = {540},
       .blocking_power = {70.38}},
      {.name = "h100-sxm",
       .description = "NVIDIA H100 SXM (700 W), with published clocks and limit, 5 to 7 % of "
                      "compute-bound speed per 100 MHz, and the A100 SXM's shape where nothing is "
                      "published",
       .min_clock = {345},
       .max_clock = {1980},
       .static_power = {78},
       .dynamic_power = {572},
       .knee = 0.77,
       .min_voltage = 0.79,
       .memory_bound = 0.06,
       .power_limit = {700},
       .limit_softness = 0.07,
       .blocking_power = {116}}};
  return kModels;
}

const GpuModel* find_gpu_model(std::string_view wanted) {
  for (const GpuModel& gpu : gpu_models()) {
    if (gpu.name == lower(wanted)) return &gpu;
  }
  return nullptr;
}

std::string unknown_gpu_model(std::string_view wanted) {
  std::vector<std::string> names;
  std::string all;
  for (const GpuModel& gpu : gpu_models()) {
    names.emplace_back(gpu.name);
    if (!all.empty()) all += ", ";
    all += names.back();
  }
  const std::optional<std::string> meant = nearest(wanted, names);
  return "unknown GPU model " + in_quotes(wanted) + (meant ? "; is '" + *meant + "' meant?" : "") +
         " (known: " + all + ")";
}

}  // namespace harpe
