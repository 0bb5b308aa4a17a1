#include "harpe/plan/profile/synth.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "harpe/base/text.h"

namespace harpe {
namespace {

// Time of a backward relative to a forward, and the ratio of their memory-bound shares. In the
// Perseus emulation profiles a backward takes 1.85 (GPT-3) and 1.93 (Bloom) forwards and is 1.8
// times as memory-bound; its two halves are about equal (Zero Bubble, ICLR 2024).
constexpr double kBackwardTime = 1.9;
constexpr double kBackwardMemory = 1.8;

struct KindModel {
  InstructionKind kind;
  double time;
};

/// Random numbers that are the same on every platform, unlike those of <random>'s distributions.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  /// Returns a uniform number in [0, 1): SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
  double uniform() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }

  /// Returns a nearly standard normal number from -6 to 6: the sum of 12 uniforms, which needs no
  /// library function whose last digit differs between platforms.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  std::uint64_t state_;
};

/// Rounds to seven significant digits, the precision of a good meter.
double rounded(double value) {
  char digits[32];
  const auto end =
      std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific, 6).ptr;
  std::from_chars(digits, end, value);
  return value;
}

/// Returns the time of each stage relative to the average: the last is the longest, the first the
/// shortest, the others between.
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
  std::vector<KindModel> list{{kForward, 1}};
  if (options.split_backward) {
    list.push_back({kBackward, kBackwardTime / 2});
    list.push_back({kWeight, kBackwardTime / 2});
  } else {
    list.push_back({kBackward, kBackwardTime});
  }
  if (options.recompute) list.push_back({kRecompute, 1});
  return list;
}

std::vector<OperatingPoint> measured(std::vector<OperatingPoint> points, double noise,
                                     Random& random) {
  for (OperatingPoint& point : points) {
    point.time.value = rounded(point.time.value * (1 + noise * random.normal()));
    point.energy.value = rounded(point.energy.value * (1 + noise * random.normal()));
  }
  return points;
}

Diagnostics check(const SynthOptions& options) {
  Diagnostics diagnostics;
  if (find_gpu_model(options.gpu) == nullptr) diagnostics.add(unknown_gpu_model(options.gpu));
  const auto in_range = [&](const std::string& what, double value, double low, double high) {
    if (value >= low && value <= high) return;  // false for NaN
    diagnostics.add(what + " is " + shortest(value) + ": expected " + shortest(low) + " to " +
                    shortest(high));
  };
  in_range("number of stages", options.stages, 1, 4096);
  in_range("number of chunks", options.chunks, 1, 64);
  in_range("forward time in seconds", options.forward_seconds, 1e-5, 1e4);
  in_range("imbalance", options.imbalance, 1, 10);
  in_range("noise", options.noise, 0, 0.1);
  return diagnostics;
}

}  // namespace

OperatingPoint run_on(const GpuModel& gpu, Megahertz clock, Seconds at_max, double memory_bound) {
  const double asked = clock.value / static_cast<double>(gpu.max_clock.value);
  const double given = throttled_clock(gpu, asked);
  const double speed = throttled_speed(gpu, asked, given);
  const Seconds time = at_max * (memory_bound + (1 - memory_bound) / speed);
  return {clock, time, Watts{demanded_power(gpu, given)} * time};
}

double memory_bound_of(InstructionKind kind, const GpuModel& gpu) {
  using enum InstructionKind;
  constexpr double kBoth = (1 + kBackwardTime * kBackwardMemory) / (1 + kBackwardTime);
  const bool is_backward = kind == kBackward || kind == kWeight;
  const bool is_both = kind == kRecomputeBackward || kind == kForwardBackward;
  return gpu.memory_bound * (is_backward ? kBackwardMemory : is_both ? kBoth : 1);
}

std::vector<OperatingPoint> sweep(const GpuModel& gpu, Megahertz highest, Seconds at_highest,
                                  double memory_bound) {
  const Seconds unlimited =
      at_highest * (at_highest / run_on(gpu, highest, at_highest, memory_bound).time);
  std::vector<OperatingPoint> points{run_on(gpu, highest, unlimited, memory_bound)};
  const double lowest =
      std::max<double>(kLowestProfiledShare * gpu.max_clock.value, gpu.min_clock.value);
  for (int clock = highest.value - gpu.clock_step; clock >= lowest; clock -= gpu.clock_step)
    points.push_back(run_on(gpu, {clock}, unlimited, memory_bound));
  return points;
}

Result<Profile> synthesize(const SynthOptions& options) {
  Diagnostics diagnostics = check(options);
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  const GpuModel& gpu = *find_gpu_model(options.gpu);
  Random random(options.seed);
  const std::vector<double> factors = stage_factors(options.stages, options.imbalance, random);
  std::vector<InstructionProfile> entries;
  for (int stage = 0; stage < options.stages; ++stage) {
    const double forward = options.forward_seconds * factors[static_cast<std::size_t>(stage)];
    for (int chunk = 0; chunk < options.chunks; ++chunk) {
      for (const KindModel& kind : kinds(options)) {
        entries.push_back(
            {stage, chunk, kind.kind,
             measured(sweep(gpu, gpu.max_clock, {forward / options.chunks * kind.time},
                            memory_bound_of(kind.kind, gpu)),
                      options.noise, random)});
      }
    }
  }
  Profile profile(std::move(entries), options.chunks > 1);
  profile.mark_synthetic();
  return profile;
}

}  // namespace harpe
