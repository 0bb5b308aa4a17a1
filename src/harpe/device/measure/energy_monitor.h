#pragma once
/// \file
/// Energy of all devices over named windows. Windows may overlap and nest, and any thread may open
/// and end them. Each GPU has its own sampling thread, which reads it only while a window is open.
/// So idle GPUs are not kept awake, and a slow or hanging driver affects no other GPU's results.
///
///   auto monitor = harpe::EnergyMonitor::start(gpus, cpus, {}, harpe::system_clock());
///   (void)(*monitor)->begin("epoch");
///   ...
///   auto used = (*monitor)->end("epoch");
///
/// Thread safety: any thread may call any member. The monitor owns all access to the devices during
/// its lifetime; other code uses them through `use_gpu`. With sampling threads, `begin`, `end` and
/// `so_far` wait for all GPU drivers together at most `MonitorOptions::patience`.
/// Failure: the result of a device that fails, is lost or does not answer has an error; the results
/// of the other devices stay correct.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/device/hw/device.h"
#include "harpe/device/measure/energy_estimate.h"

namespace harpe {

struct MonitorOptions {
  double rate = 50;                ///< power samples per second, Hz; between 0.1 and 1000
  Seconds cpu_interval{5};         ///< time between CPU counter readings while a window is open
  Seconds idle_cpu_interval{15};   ///< the same while no window is open, because counters wrap
  Seconds reasons_interval{0.2};   ///< time between readings of event reasons
  Seconds processes_interval{10};  ///< time between readings of the processes on a GPU
  Seconds history{120};            ///< age of the oldest samples kept for each device
  bool sampling_threads = true;    ///< false if the caller calls `poll`, as in tests
  Seconds patience{1};             ///< longest time that a call waits for drivers
  /// A hook for other readings of the GPU, which may be slow. Each GPU's sampling thread calls it
  /// at most once per `look_interval`, with the GPU's position in `gpus()`. Never called if
  /// `sampling_threads` is false.
  std::function<void(std::size_t position, Gpu&)> look{};
  Seconds look_interval{1};
  SensorAccuracy gpu_accuracy{.share = 0.05,
                              .source =
                                  "NVIDIA states 5 % of the power drawn for Fermi and Kepler "
                                  "and nothing for newer GPUs"};
  SensorAccuracy cpu_accuracy{.share = 0.05, .source = "assumed: RAPL's vendors state none"};
  std::uint64_t seed = 1;  ///< seed of the random sampling instants
};

/// The energy of one device in a window.
struct DeviceEnergy {
  enum class Kind : unsigned char { kGpu, kCpu, kDram };
  Kind kind = Kind::kGpu;
  int index = 0;                        ///< index of the GPU or the CPU package
  std::string name;                     ///< "NVIDIA A40", "package-0"
  std::string uuid;                     ///< UUID of the GPU; empty for CPUs and memory
  EnergyEstimate energy;                ///< up to the last good reading if `error` is set
  std::optional<Error> error;           ///< the reason why `energy` is incomplete or missing
  std::uint64_t failed_reads = 0;       ///< number of failed readings in the window
  EventReasons reasons;                 ///< all event reasons seen in the window
  double throttled_share = 0;           ///< share of event-reason readings that showed throttling
  bool whole_module = false;            ///< true if CPU and memory of a superchip are included
  std::vector<std::int64_t> processes;  ///< ids of processes seen on this GPU in the window

  std::string label() const;  ///< "GPU 0", "CPU 0", "DRAM 0"
};

struct WindowEnergy {
  std::string name;
  double started_at = 0;  ///< begin of the window in time of day, seconds since 1970
  Instant begin{}, end{};
  Seconds time{};
  std::vector<DeviceEnergy> devices;  ///< all GPUs, then CPU and DRAM of each package

  /// Returns the sum over all devices that were read. If a device is a whole superchip module, CPU
  /// packages and DRAM are part of it and are not added.
  EnergyEstimate total() const;
  /// Returns the sum over the devices of one kind.
  Joules sum(DeviceEnergy::Kind kind) const;
  bool complete() const;  ///< true if no device has an error
};

/// Returns `WindowEnergy::total`, with error 0 (unknown) unless the errors of all devices that were
/// read are known.
EnergyEstimate total_of(const WindowEnergy& window);

/// The time between two instants.
struct TimeSpan {
  Instant begin, end;
};

class EnergyMonitor {
 public:
  /// Creates a monitor without reading any GPU. A GPU listed twice (by UUID) is measured once. The
  /// devices and the clock must outlive the monitor. Fails if the rate is out of range.
  static Result<std::unique_ptr<EnergyMonitor>> start(std::span<Gpu* const> gpus,
                                                      std::span<Cpu* const> cpus,
                                                      MonitorOptions options, Clock& clock);
  /// Waits without limit for driver calls in progress; see `stop`.
  virtual ~EnergyMonitor() = default;
  /// Ends the sampling for good. Returns false if a driver call still runs after `longest`. The
  /// call cannot be cancelled, so the process must then leave by `_Exit` without destroying the
  /// monitor or the devices.
  virtual bool stop(Seconds longest) = 0;

  /// Opens a window. Fails if a window of this name is open; with `restart`, replaces that window.
  /// \param at  begin of the window if before this call (`MonitorOptions::history` at most)
  virtual Status begin(const std::string& name, bool restart = false,
                       std::optional<Instant> at = {}) = 0;
  /// Ends a window and returns its energy. Reads the clock, then every device once, so that even a
  /// short window is as accurate as its sensors. Fails with `kNotFound` if no such window is open.
  /// \param at  end of the window if before this call (as above)
  virtual Result<WindowEnergy> end(const std::string& name, std::optional<Instant> at = {}) = 0;
  /// Returns the energy of a window up to now and keeps the window open.
  virtual Result<WindowEnergy> so_far(const std::string& name) = 0;
  /// Returns true if further readings would not improve the energy of a window that begins or ends
  /// at `at`: for the best result, call `end(name, at)` once this is true. GPUs that fail count as
  /// settled. Reads no device.
  virtual bool settled(Instant at) const = 0;
  /// Drops a window.
  virtual Status cancel(const std::string& name) = 0;
  /// Returns the energy of one GPU in each of several past spans, from the samples taken so far.
  /// Reads no device, so many short spans cost little. Samples exist for times when a window was
  /// open (`MonitorOptions::history` at most). A span is most accurate one counter step later.
  /// \param position  position in `gpus()`; `kNotFound` if out of range
  virtual Result<std::vector<EnergyEstimate>> past(std::size_t position,
                                                   std::span<const TimeSpan> spans) = 0;

  /// Returns the steps of one GPU's energy counter since `since` that were seen and are kept; none
  /// if the GPU has no counter. Reads no device.
  virtual Result<std::vector<CounterEdge>> counter_edges(std::size_t position,
                                                         Instant since) const = 0;

  /// Returns the measured GPUs, in the order passed to `start`.
  virtual std::vector<GpuIdentity> gpus() const = 0;
  /// Calls `use` with a GPU after the driver call in progress on it has returned.
  virtual void use_gpu(std::size_t position, const std::function<void(Gpu&)>& use) = 0;

  /// Takes one sample of every device.
  virtual void poll() = 0;
  /// Returns the CPU time of the sampling threads since the start; 0 without threads.
  virtual Seconds sampling_cpu_time() const = 0;
  virtual std::uint64_t rounds() const = 0;  ///< average number of readings per GPU so far
};

/// Ends a window at the time of the call, after waiting until that instant is settled or `longest`
/// has passed. Before the counter's next step, the end of a window is far less accurate.
Result<WindowEnergy> end_settled(EnergyMonitor& monitor, const std::string& name, Seconds longest,
                                 Clock& clock);

}  // namespace harpe
