#pragma once
/// \file
/// What one simulated GPU is: constants that the configuration sets and that never change while it
/// runs. Where the constants come from: docs/simulated-gpus.md.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/device/gpu_model/gpu_model.h"

namespace harpe::device {

/// Something that goes wrong, from a time or from a call on.
struct SimulatedFault {
  enum class Kind : unsigned char {
    kNoPermission,  ///< setting anything is refused
    kGpuLost,       ///< every call fails
    kLimitRounded,  ///< a power limit is silently rounded down to a multiple of `amount` W
    kCounterWrap,   ///< the energy counter starts again at zero every `amount` J
    kCounterReset,  ///< the energy counter starts again at zero once
    kSlowCall,      ///< a call takes `amount` s
    kThrottling     ///< the clock is held to `amount` of the highest; `reason` says why
  };
  static constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

  Kind kind = Kind::kGpuLost;
  std::int64_t begin_ns = 0;  ///< since the simulation began
  std::int64_t end_ns = kForever;
  std::int64_t first_call = 0;  ///< counts the calls to the driver of this GPU, from 1; 0: any
  std::int64_t last_call = kForever;
  bool reads = true, sets = true;  ///< which calls kSlowCall hits
  double amount = 0;
  std::uint64_t reason = 0;  ///< bits of EventReasons

  bool holds(std::int64_t time_ns, std::int64_t call) const {
    return time_ns >= begin_ns && time_ns < end_ns && call >= first_call && call <= last_call;
  }
};

/// How long a locked clock takes to come into force. It depends on the target most of all, and a
/// few pairs are very slow (arXiv 2502.20075).
struct SwitchLatency {
  double call_s = 0.010;     ///< the driver call that locks, as its caller waits for it
  double typical_s = 0.015;  ///< median from the begin of the call to the clock in force
  double spread = 0.25;      ///< of the logarithm, from one switch to the next
  double slow_target_share = 0.05, slow_target_factor = 6;
  double slow_pair_share = 0.01, slow_pair_s = 0.2;
};

/// What the driver of a simulated GPU keeps of its memory, and what each process that uses it takes
/// (a context of CUDA). Assumed.
inline constexpr std::uint64_t kSimulatedReservedBytes = 600ULL << 20U;
inline constexpr std::uint64_t kSimulatedProcessBytes = 512ULL << 20U;

struct SimulatedGpuSpec {
  std::string name, uuid, pci;
  std::string device_file;  ///< through which programs would compute on it; empty: none
  std::uint64_t seed = 0;   ///< of this GPU: its sensors and latencies follow from it
  GpuModel gpu;             ///< its power limit is the factory's
  double idle_power_w = 0;
  double lowest_limit_w = 0, highest_limit_w = 0;
  /// A limit that another controller holds, such as the board's controller.
  double other_limit_w = std::numeric_limits<double>::infinity();
  std::vector<int> memory_clocks;  ///< rising; the last holds unless locked
  bool memory_lock = true;         ///< the memory clock can be locked

  // Heat: a resistance to the air and a capacity; static power grows by `leakage` per kelvin above
  // `reference_c`, where the constants of `gpu` hold.
  double ambient_c = 30, kelvin_per_watt = 0.1, joule_per_kelvin = 200;
  double leakage = 0.002, reference_c = 60;
  double slowdown_c = 85, hardware_slowdown_c = 92;

  // Sensors.
  bool has_counter = true;
  std::int64_t counter_step_ns = 100'000'000;
  std::int64_t counter_phase_ns = 0;
  /// Standard deviation of how far each step strays from the regular ones.
  std::int64_t counter_jitter_ns = 1'000'000;
  std::int64_t sensor_period_ns = 100'000'000, sensor_window_ns = 25'000'000;
  std::int64_t sensor_phase_ns = 0;
  double gain = 1;                     ///< read over true
  double noise = 0.005;                ///< of one reading, relative standard deviation
  bool power_usage_is_average = true;  ///< NVML's plain power reading: 1 s average, or the newest

  SwitchLatency latency;
  bool mig = false;
  bool module_scope = false;  ///< as on GH200, only the module with its CPU is metered
  double module_power_w = 0;  ///< of the rest of the module
  bool fan = false;
  bool only_root_sets = false;
  std::uint64_t memory_bytes = 0;
  int cores = 0;
  unsigned int pci_device_id = 0;
  int capability_major = 8, capability_minor = 0;
  std::vector<SimulatedFault> faults;
};

// The GPUs that a simulation can name, as they come from the factory.

std::vector<std::string> simulated_gpu_names();

/// The GPU of that name, without what tells one from another (UUID, address, seed). nullopt: none.
std::optional<SimulatedGpuSpec> catalogue_gpu(std::string_view name);

}  // namespace harpe::device
