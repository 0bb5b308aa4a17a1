#pragma once
/// \file
/// Energy of all devices over named windows, which may overlap and nest and be opened and ended
/// from any thread. Each GPU has a thread that reads it, only while a window is open: idle GPUs are
/// not kept awake, and one whose driver is slow or hangs spoils no other's figures.
///
///   auto monitor = harpe::EnergyMonitor::start(gpus, cpus, {}, harpe::system_clock());
///   (void)(*monitor)->begin("epoch");
///   ...
///   auto used = (*monitor)->end("epoch");
///
/// Thread safety: all members may be called from any thread. The devices belong to the monitor as
/// long as it lives; use them through `use_gpu`. A call waits for drivers no longer than
/// `MonitorOptions::patience`, for all GPUs together.
/// Failure: a device that fails, is lost or does not answer is marked in the results; the others
/// are right.

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
  double rate = 50;                ///< of sampling power, Hz; between 0.1 and 1000
  Seconds cpu_interval{5};         ///< between readings of CPU counters in open windows
  Seconds idle_cpu_interval{15};   ///< the same without a window: counters wrap
  Seconds reasons_interval{0.2};   ///< between readings of event reasons
  Seconds processes_interval{10};  ///< between looks at who uses a GPU
  Seconds history{120};            ///< of samples kept, for each device
  bool sampling_threads = true;    ///< false: `poll` is called by hand, as in tests
  Seconds patience{1};             ///< that a call waits for drivers
  /// Called by each GPU's thread at most once a `look_interval`, with its position in `gpus()`:
  /// other readings of the GPU, which may be slow, too. Not called without threads.
  std::function<void(std::size_t position, Gpu&)> look{};
  Seconds look_interval{1};
  SensorAccuracy gpu_accuracy{.share = 0.05,
                              .source =
                                  "NVIDIA states 5 % of the power drawn for Fermi and Kepler "
                                  "and nothing for newer GPUs"};
  SensorAccuracy cpu_accuracy{.share = 0.05, .source = "assumed: RAPL's vendors state none"};
  std::uint64_t seed = 1;  ///< of the moments of sampling, which are spread at random
};

/// What one device used in a window.
struct DeviceEnergy {
  enum class Kind : unsigned char { kGpu, kCpu, kDram };
  Kind kind = Kind::kGpu;
  int index = 0;                        ///< of the GPU or the CPU package
  std::string name;                     ///< "NVIDIA A40", "package-0"
  std::string uuid;                     ///< of GPUs
  EnergyEstimate energy;                ///< to the last good reading, if `error`
  std::optional<Error> error;           ///< why `energy` is incomplete or missing
  std::uint64_t failed_reads = 0;       ///< in the window
  EventReasons reasons;                 ///< all seen in the window
  double throttled_share = 0;           ///< of the looks at the event reasons
  bool whole_module = false;            ///< includes CPU and memory of a superchip
  std::vector<std::int64_t> processes;  ///< seen to compute on this GPU in the window

  std::string label() const;  ///< "GPU 0", "CPU 0", "DRAM 0"
};

struct WindowEnergy {
  std::string name;
  double started_at = 0;  ///< seconds since 1970, by the clock on the wall
  Instant begin{}, end{};
  Seconds time{};
  std::vector<DeviceEnergy> devices;  ///< GPUs, then for each package CPU and DRAM

  /// Of all devices that answered. Where the whole module of a superchip is metered, its CPU
  /// packages are inside already and not added.
  EnergyEstimate total() const;
  /// Sum over one kind.
  Joules sum(DeviceEnergy::Kind kind) const;
  bool complete() const;  ///< no device has an error
};

/// `WindowEnergy::total`, whose error is known only if those of all devices that were read are.
EnergyEstimate total_of(const WindowEnergy& window);

/// From one instant to another.
struct TimeSpan {
  Instant begin, end;
};

class EnergyMonitor {
 public:
  /// GPUs given twice (by UUID) are measured once. Reads no GPU. The devices and the clock must
  /// outlive the monitor. Fails on a rate out of range.
  static Result<std::unique_ptr<EnergyMonitor>> start(std::span<Gpu* const> gpus,
                                                      std::span<Cpu* const> cpus,
                                                      MonitorOptions options, Clock& clock);
  /// Waits for drivers' calls in progress, however long they take; see `stop`.
  virtual ~EnergyMonitor() = default;
  /// Ends the sampling for good. False: a driver's call still runs after so long, and nothing can
  /// end it; the process must leave by `_Exit`, and neither this nor the devices be destroyed.
  virtual bool stop(Seconds longest) = 0;

  /// Opens a window. A name that is open already is an error, or starts over with `restart`.
  /// \param at  when it begins, where that was before this call (`MonitorOptions::history` at most)
  virtual Status begin(const std::string& name, bool restart = false,
                       std::optional<Instant> at = {}) = 0;
  /// Ends a window; what it used. Takes the time, then has each device read once, so that a short
  /// window is as good as its sensors. Unknown names: `kNotFound`.
  /// \param at  when it ended, where that was before this call (as above)
  virtual Result<WindowEnergy> end(const std::string& name, std::optional<Instant> at = {}) = 0;
  /// The same without ending it.
  virtual Result<WindowEnergy> so_far(const std::string& name) = 0;
  /// Whether all has been read that makes an edge of a window at that instant known better: a
  /// window that ended then is best ended here once this holds. Devices that fail are not waited
  /// for. Reads no device.
  virtual bool settled(Instant at) const = 0;
  /// Forgets a window.
  virtual Status cancel(const std::string& name) = 0;
  /// What one GPU used in spans of the past, from the samples taken so far: reads no device, so
  /// that many short spans cost little. Samples are there as far as a window was open
  /// (`MonitorOptions::history` at most); a span that ended a counter's step ago is known best.
  /// \param position  in `gpus()`; `kNotFound` where there is none
  virtual Result<std::vector<EnergyEstimate>> past(std::size_t position,
                                                   std::span<const TimeSpan> spans) = 0;

  /// Steps of one GPU's energy counter since then, as far as they were seen and are kept; none
  /// where it has no counter. Reads no device.
  virtual Result<std::vector<CounterEdge>> counter_edges(std::size_t position,
                                                         Instant since) const = 0;

  /// The GPUs measured, in the order given.
  virtual std::vector<GpuIdentity> gpus() const = 0;
  /// Waits for the driver's call in progress.
  virtual void use_gpu(std::size_t position, const std::function<void(Gpu&)>& use) = 0;

  /// One round of sampling.
  virtual void poll() = 0;
  /// Processor time of the sampling threads since the start; 0 without.
  virtual Seconds sampling_cpu_time() const = 0;
  virtual std::uint64_t rounds() const = 0;  ///< readings of the devices so far, on average
};

/// Ends a window that ends now once all is read that makes its end known better, or after
/// `longest`. Until a counter's next step, an end is known less well by far.
Result<WindowEnergy> end_settled(EnergyMonitor& monitor, const std::string& name, Seconds longest,
                                 Clock& clock);

}  // namespace harpe
