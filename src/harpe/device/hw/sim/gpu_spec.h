#pragma once
/// \file
/// Specification of a simulated GPU: constants from the configuration that never change during a
/// simulation. docs/simulated-gpus.md names the sources of the constants.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/device/gpu_model/gpu_model.h"

namespace harpe::device {

/// A fault that holds for a range of times and a range of calls.
struct SimulatedFault {
  enum class Kind : unsigned char {
    kNoPermission,  ///< every setting is refused
    kGpuLost,       ///< every call fails
    kLimitRounded,  ///< a power limit is silently rounded down to a multiple of `amount` W
    kCounterWrap,   ///< the energy counter restarts at zero every `amount` J
    kCounterReset,  ///< the energy counter restarts at zero once
    kSlowCall,      ///< a call takes `amount` s
    kThrottling     ///< the clock is limited to `amount` times the highest, with `reason`
  };
  static constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

  Kind kind = Kind::kGpuLost;
  std::int64_t begin_ns = 0;  ///< time since the simulation began
  std::int64_t end_ns = kForever;
  std::int64_t first_call = 0;  ///< number of a driver call of this GPU, from 1; 0 for any call
  std::int64_t last_call = kForever;
  bool reads = true, sets = true;  ///< kinds of calls that kSlowCall affects
  double amount = 0;
  std::uint64_t reason = 0;  ///< bits of EventReasons

  bool holds(std::int64_t time_ns, std::int64_t call) const {
    return time_ns >= begin_ns && time_ns < end_ns && call >= first_call && call <= last_call;
  }
};

/// The time from locking a clock until the clock is in force. It depends mostly on the target, and
/// a few pairs are very slow (arXiv 2502.20075).
struct SwitchLatency {
  double call_s = 0.010;     ///< duration of the driver call that locks the clock
  double typical_s = 0.015;  ///< median time from the begin of the call to the clock in force
  double spread = 0.25;      ///< standard deviation of the logarithm of the latency
  double slow_target_share = 0.05, slow_target_factor = 6;
  double slow_pair_share = 0.01, slow_pair_s = 0.2;
};

/// Memory reserved by the driver of a simulated GPU, and memory of each process that uses the GPU
/// (a CUDA context). Assumed values.
inline constexpr std::uint64_t kSimulatedReservedBytes = 600ULL << 20U;
inline constexpr std::uint64_t kSimulatedProcessBytes = 512ULL << 20U;

struct SimulatedGpuSpec {
  std::string name, uuid, pci;
  std::string device_file;  ///< device file for programs that compute on the GPU; empty if none
  std::uint64_t seed = 0;   ///< seed of this GPU's sensors and latencies
  GpuModel gpu;             ///< GPU model; its power limit is the factory default
  double idle_power_w = 0;
  double lowest_limit_w = 0, highest_limit_w = 0;
  /// The power limit of another controller, such as the board's.
  double other_limit_w = std::numeric_limits<double>::infinity();
  std::vector<int> memory_clocks;  ///< clocks in ascending order; the last is used unless locked
  bool memory_lock = true;         ///< true if the memory clock can be locked

  // Heat: a thermal resistance to the air and a heat capacity. The constants of `gpu` are valid at
  // `reference_c`; static power grows by `leakage` per kelvin above it.
  double ambient_c = 30, kelvin_per_watt = 0.1, joule_per_kelvin = 200;
  double leakage = 0.002, reference_c = 60;
  double slowdown_c = 85, hardware_slowdown_c = 92;

  // Sensors.
  bool has_counter = true;
  std::int64_t counter_step_ns = 100'000'000;
  std::int64_t counter_phase_ns = 0;
  /// Standard deviation of each step from the regular time.
  std::int64_t counter_jitter_ns = 1'000'000;
  std::int64_t sensor_period_ns = 100'000'000, sensor_window_ns = 25'000'000;
  std::int64_t sensor_phase_ns = 0;
  double gain = 1;                     ///< ratio of the reading to the true value
  double noise = 0.005;                ///< relative standard deviation of one reading
  bool power_usage_is_average = true;  ///< true if NVML's plain power reading is a 1 s average

  SwitchLatency latency;
  bool mig = false;
  bool module_scope = false;  ///< true if only the module with its CPU is metered, as on GH200
  double module_power_w = 0;  ///< power of the rest of the module
  bool fan = false;
  bool only_root_sets = false;
  std::uint64_t memory_bytes = 0;
  int cores = 0;
  unsigned int pci_device_id = 0;
  int capability_major = 8, capability_minor = 0;
  std::vector<SimulatedFault> faults;
};

// The catalogue of GPUs that a simulation can name, with their factory settings.

std::vector<std::string> simulated_gpu_names();

/// Returns the GPU with this name, without UUID, address and seed; nullopt if there is none.
std::optional<SimulatedGpuSpec> catalogue_gpu(std::string_view name);

}  // namespace harpe::device
