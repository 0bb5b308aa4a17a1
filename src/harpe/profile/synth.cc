#include "harpe/profile/synth.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "harpe/base/text.h"

namespace harpe {
namespace {

// Time of each kind relative to a forward, and how much more of it is bound by memory. A backward
// takes 1.85 (GPT-3) and 1.93 (Bloom) forwards in the Perseus emulation profiles, whose backwards
// are also 1.8 times as memory-bound; its two halves are about equal (Zero Bubble, ICLR 2024).
constexpr double kBackwardTime = 1.9;
constexpr double kBackwardMemory = 1.8;

struct KindModel {
  InstructionKind kind;
  double time;
  double memory;
};

/// Random numbers that are the same everywhere, unlike those of <random>'s distributions.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  /// Uniform in [0, 1): SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
  double uniform() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }

  /// Nearly standard normal, by the sum of 12 uniforms: needs no library function whose last digit
  /// differs between platforms, and never strays beyond 6.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  std::uint64_t state_;
};

/// Power were there no limit, at fraction `x` of the max clock.
double demanded_power(const GpuModel& gpu, double x) {
  const double rise = std::max(0.0, x - gpu.knee) / (1 - gpu.knee);
  const double voltage = gpu.min_voltage + (1 - gpu.min_voltage) * rise;
  return gpu.static_power.value + gpu.dynamic_power.value * x * voltage * voltage;
}

/// `demand` as a fraction of the limit, bent over to at most 1.
double limited(double demand, double softness) {
  if (demand <= 1 - softness) return demand;
  if (demand >= 1 + softness) return 1;
  const double excess = demand - (1 - softness);
  return demand - excess * excess / (4 * softness);
}

/// The fraction of the max clock that the GPU really runs at when `x` is asked for.
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

/// Seven significant digits, as a good meter would give.
double rounded(double value) {
  char digits[32];
  const auto end =
      std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific, 6).ptr;
  std::from_chars(digits, end, value);
  return value;
}

/// Time of each stage relative to the average: the last is the longest, the first the shortest,
/// the others between.
std::vector<double> stage_factors(int stages, double imbalance, Random& random) {
  std::vector<double> factors;
  double sum = 0;
  for (int stage = 0; stage < stages; ++stage) {
    double share = random.uniform();
    if (stage == 0) share = 0;
    if (stage == stages - 1) share = 1;
    factors.push_back(1 + (imbalance - 1) * share);
    sum += factors.back();
  }
  for (double& factor : factors) factor *= stages / sum;
  return factors;
}

std::vector<KindModel> kinds(const SynthOptions& options) {
  using enum InstructionKind;
  std::vector<KindModel> list{{kForward, 1, 1}};
  if (options.split_backward) {
    list.push_back({kBackward, kBackwardTime / 2, kBackwardMemory});
    list.push_back({kWeight, kBackwardTime / 2, kBackwardMemory});
  } else {
    list.push_back({kBackward, kBackwardTime, kBackwardMemory});
  }
  if (options.recompute) list.push_back({kRecompute, 1, 1});
  return list;
}

std::vector<OperatingPoint> sweep(const GpuModel& gpu, Seconds wanted, double memory_bound,
                                  double noise, Random& random) {
  // `wanted` is the time at max clock as it runs, throttled or not.
  const Seconds unlimited =
      wanted * (wanted / run_on(gpu, gpu.max_clock, wanted, memory_bound).time);
  std::vector<OperatingPoint> points;
  const double lowest = kLowestProfiledShare * gpu.max_clock.value;
  for (int clock = gpu.max_clock.value; clock >= std::max<double>(lowest, gpu.min_clock.value);
       clock -= gpu.clock_step) {
    OperatingPoint point = run_on(gpu, {clock}, unlimited, memory_bound);
    point.time.value = rounded(point.time.value * (1 + noise * random.normal()));
    point.energy.value = rounded(point.energy.value * (1 + noise * random.normal()));
    points.push_back(point);
  }
  return points;
}

const GpuModel* find_gpu(std::string_view wanted) {
  for (const GpuModel& gpu : gpu_models()) {
    if (gpu.name == lower(wanted)) return &gpu;
  }
  return nullptr;
}

std::string unknown_gpu(std::string_view wanted) {
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

Faults check(const SynthOptions& options) {
  Faults faults;
  if (find_gpu(options.gpu) == nullptr) faults.add(unknown_gpu(options.gpu));
  const auto in_range = [&](const std::string& what, double value, double low, double high) {
    if (value >= low && value <= high) return;  // false for NaN
    faults.add(what + " is " + shortest(value) + ": expected " + shortest(low) + " to " +
               shortest(high));
  };
  in_range("number of stages", options.stages, 1, 4096);
  in_range("number of chunks", options.chunks, 1, 64);
  in_range("forward time in seconds", options.forward_seconds, 1e-5, 1e4);
  in_range("imbalance", options.imbalance, 1, 10);
  in_range("noise", options.noise, 0, 0.1);
  return faults;
}

}  // namespace

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

OperatingPoint run_on(const GpuModel& gpu, Megahertz clock, Seconds at_max, double memory_bound) {
  const double asked = clock.value / static_cast<double>(gpu.max_clock.value);
  const double given = throttled_clock(gpu, asked);
  const double speed = given * (1 - gpu.throttle_loss * (asked - given));
  const Seconds time = at_max * (memory_bound + (1 - memory_bound) / speed);
  return {clock, time, Watts{demanded_power(gpu, given)} * time};
}

Result<Profile> synthesize(const SynthOptions& options) {
  Faults faults = check(options);
  if (!faults.empty()) return Error::invalid(std::move(faults));
  const GpuModel& gpu = *find_gpu(options.gpu);
  Random random(options.seed);
  const std::vector<double> factors = stage_factors(options.stages, options.imbalance, random);
  std::vector<InstructionProfile> entries;
  for (int stage = 0; stage < options.stages; ++stage) {
    const double forward = options.forward_seconds * factors[static_cast<std::size_t>(stage)];
    for (int chunk = 0; chunk < options.chunks; ++chunk) {
      for (const KindModel& kind : kinds(options)) {
        entries.push_back({stage, chunk, kind.kind,
                           sweep(gpu, {forward / options.chunks * kind.time},
                                 gpu.memory_bound * kind.memory, options.noise, random)});
      }
    }
  }
  return Profile(std::move(entries), options.chunks > 1);
}

}  // namespace harpe
