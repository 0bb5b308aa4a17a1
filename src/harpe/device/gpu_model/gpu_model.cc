#include "harpe/device/gpu_model/gpu_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "harpe/base/text.h"

namespace harpe {
namespace {

double voltage(const GpuModel& gpu, double x) {
  const double rise = std::max(0.0, x - gpu.knee) / (1 - gpu.knee);
  return gpu.min_voltage + (1 - gpu.min_voltage) * rise;
}

/// Sets unpublished properties to those of the H100, with powers in proportion to the limit.
GpuModel like_h100(GpuModel gpu) {
  const double scale = gpu.power_limit.value / 700;
  gpu.static_power = {std::round(78 * scale)};
  gpu.dynamic_power = {std::round(572 * scale)};
  gpu.knee = 0.77;
  gpu.min_voltage = 0.79;
  gpu.limit_softness = 0.07;
  gpu.blocking_power = {std::round(116 * scale)};
  return gpu;
}

/// Sets unpublished properties to those of the A40, a card with GDDR memory, in the same way.
GpuModel like_a40(GpuModel gpu) {
  const double scale = gpu.power_limit.value / 300;
  gpu.static_power = {std::round(82.7 * scale)};
  gpu.dynamic_power = {std::round(177.4 * scale)};
  gpu.knee = 0.931;
  gpu.min_voltage = 0.788;
  gpu.memory_bound = 0.1;
  gpu.limit_softness = 0.167;
  gpu.blocking_power = {std::round(70.38 * scale)};
  return gpu;
}

/// Returns a name in lower case without maker and separators: "NVIDIA H-100" is "h100".
std::string bare(std::string_view name) {
  std::string letters;
  for (const char c : lower(name)) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) letters += c;
  }
  for (const std::string_view maker : {"nvidia", "geforce", "amd", "instinct"}) {
    if (const std::size_t at = letters.find(maker); at != std::string::npos) {
      letters.erase(at, maker.size());
    }
  }
  return letters;
}

/// Returns the first letters of a name and the number after them: "h100" for "h100pcie".
std::string_view chip_of(std::string_view bare_name) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t number = bare_name.find_first_of(kDigits);
  if (number == std::string_view::npos) return {};
  return bare_name.substr(0, bare_name.find_first_not_of(kDigits, number));
}

/// Returns the models whose name begins with the wanted name or is its beginning. If there are
/// none, returns those whose name contains it or is contained in it, or else the most similar ones.
std::vector<std::string> meant_by(std::string_view wanted, const std::vector<std::string>& names) {
  const std::string asked = bare(wanted);
  std::vector<std::string> beginning, within;
  for (const std::string& name : names) {
    const std::string known = bare(name);
    const bool more_exact = asked.size() > known.size();  // "h100-sxm5-80gb"
    const std::string &longer = more_exact ? asked : known, &shorter = more_exact ? known : asked;
    if (asked.size() < 3 || longer.find(shorter) == std::string::npos) continue;
    (longer.starts_with(shorter) ? beginning : within).push_back(name);
  }
  if (!beginning.empty()) return beginning;  // "h200" is in "gh200", too
  if (!within.empty()) return within;
  // Boards of the same chip are more similar than names with fewer different letters: "h100-pcie"
  // does not mean "a100-pcie".
  const std::string_view chip = chip_of(asked);
  std::vector<std::string> same_chip;
  for (const std::string& name : names)
    if (!chip.empty() && bare(name).starts_with(chip)) same_chip.push_back(name);
  const auto near = nearest(wanted, same_chip.empty() ? names : same_chip);
  return near ? std::vector{*near} : same_chip;
}

/// The words in a driver's product name that identify a model.
struct ProductName {
  std::string_view model, first, second;
};
constexpr std::array kProductNames{
    ProductName{"a100-sxm", "a100", "sxm4"},  ProductName{"a100-sxm", "a100", "sxm"},
    ProductName{"a100-pcie", "a100", "pcie"}, ProductName{"a40", "a40", ""},
    ProductName{"h100-sxm", "h100", "hbm3"},  ProductName{"h200-sxm", "h200", ""},
    ProductName{"gh200", "gh200", ""},        ProductName{"b200-sxm", "b200", ""},
    ProductName{"gb200", "gb200", ""},        ProductName{"mi300x", "mi300x", ""},
    ProductName{"l40s", "l40s", ""},          ProductName{"rtx-4090", "rtx", "4090"}};

/// Returns the words of a product name: "NVIDIA A100-SXM4-80GB" has nvidia, a100, sxm4, 80gb.
std::vector<std::string> words_of(std::string_view product) {
  std::vector<std::string> words(1);
  for (const char c : lower(product)) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

/// Returns models matched to measurements; the H100 is matched to published figures of its speed.
std::vector<GpuModel> matched_models() {
  return {
      {.name = "a100-sxm",
       .description =
           "NVIDIA A100 SXM, matched to the stage profiles of GPT-3 175B and Bloom "
           "176B measured for Perseus (SOSP 2024), on GPUs that drew up to 480 W: their limit was "
           "above the board's 400 W",
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
}

/// Returns models made of published clocks and limits alone.
std::vector<GpuModel> published_models() {
  return {
      like_h100({.name = "h200-sxm",
                 .description =
                     "NVIDIA H200 SXM (700 W, 141 GB HBM3e at 4.8 TB/s), the H100's chip "
                     "with faster memory: as h100-sxm, less bound by memory",
                 .min_clock = {345},
                 .max_clock = {1980},
                 .memory_bound = 0.042,
                 .power_limit = {700}}),
      like_h100({.name = "gh200",
                 .description = "the H100 of an NVIDIA GH200 (700 W, 96 GB HBM3 at 4 TB/s), with "
                                "h100-sxm's constants",
                 .min_clock = {345},
                 .max_clock = {1980},
                 .memory_bound = 0.06,
                 .power_limit = {700}}),
      like_h100({.name = "b200-sxm",
                 .description =
                     "NVIDIA B200 SXM (1000 W, 180 GB HBM3e at 7.7 TB/s), with published "
                     "clock and limit, and h100-sxm's shape",
                 .min_clock = {120},
                 .max_clock = {1965},
                 .memory_bound = 0.06,
                 .power_limit = {1000}}),
      like_h100({.name = "gb200",
                 .description =
                     "NVIDIA GB200, one of its GPUs (1200 W, 186 GB HBM3e at 8 TB/s), "
                     "with published limit, the clock its driver reports, and h100-sxm's shape",
                 .min_clock = {120},
                 .max_clock = {2062},
                 .memory_bound = 0.06,
                 .power_limit = {1200}}),
      like_h100({.name = "mi300x",
                 .description = "AMD Instinct MI300X (750 W, 192 GB HBM3 at 5.3 TB/s), with "
                                "published clock and limit, and h100-sxm's shape",
                 .min_clock = {135},
                 .max_clock = {2100},
                 .memory_bound = 0.06,
                 .power_limit = {750}}),
      like_a40({.name = "l40s",
                .description = "NVIDIA L40S (350 W, 48 GB GDDR6 at 864 GB/s), with published clock "
                               "and limit, and a40's shape",
                .min_clock = {210},
                .max_clock = {2520},
                .power_limit = {350}}),
      like_a40({.name = "rtx-4090",
                .description = "NVIDIA GeForce RTX 4090 (450 W, 24 GB GDDR6X at 1008 GB/s), with "
                               "published boost clock and limit, and a40's shape",
                .min_clock = {210},
                .max_clock = {2520},
                .power_limit = {450}})};
}

}  // namespace

double dynamic_share(const GpuModel& gpu, double x) {
  const double v = voltage(gpu, x);
  return x * v * v;
}

double demanded_power(const GpuModel& gpu, double x) {
  // The order of the products determines the last digit.
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
  static const std::vector<GpuModel> kModels = [] {
    std::vector<GpuModel> models = matched_models();
    for (const GpuModel& gpu : published_models()) models.push_back(gpu);
    return models;
  }();
  return kModels;
}

const GpuModel* find_gpu_model(std::string_view wanted) {
  for (const GpuModel& gpu : gpu_models()) {
    if (gpu.name == lower(wanted)) return &gpu;
  }
  return nullptr;
}

const GpuModel* model_of_gpu(std::string_view product) {
  const std::vector<std::string> words = words_of(product);
  const auto has = [&](std::string_view word) {
    return std::ranges::find(words, word) != words.end();
  };
  // Other boards with the same chip have different limits.
  if (has("nvl") || has("laptop") || has("d") || has("mig")) return nullptr;
  for (const ProductName& one : kProductNames) {
    if (has(one.first) && (one.second.empty() || has(one.second))) return find_gpu_model(one.model);
  }
  return nullptr;
}

std::string unknown_gpu_model(std::string_view wanted) {
  std::vector<std::string> names;
  for (const GpuModel& gpu : gpu_models()) names.emplace_back(gpu.name);
  return unknown_gpu_model(wanted, names);
}

std::string unknown_gpu_model(std::string_view wanted, const std::vector<std::string>& known) {
  std::string all;
  for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
  std::string guess;
  for (const std::string& meant : meant_by(wanted, known)) {
    guess += (guess.empty() ? "'" : " or '") + meant + "'";
  }
  return "unknown GPU model " + in_quotes(wanted) +
         (guess.empty() ? "" : "; is " + guess + " meant?") + " (known: " + all + ")";
}

}  // namespace harpe
