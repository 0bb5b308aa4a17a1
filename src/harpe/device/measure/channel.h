#pragma once
/// \file
/// A device under the energy monitor: sensors, estimator and open windows. For the monitor only.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/device/measure/energy_estimator.h"
#include "harpe/device/measure/energy_monitor.h"

namespace harpe::device {

/// The state of one window on one device, without its energy.
struct ChannelWindow {
  Instant begin{};
  int energy = 0, dram = 0;  ///< handles of the estimators
  std::uint64_t failed_reads = 0;
  std::uint64_t looks = 0, throttled = 0;  ///< readings of event reasons: all, with throttling
  EventReasons reasons;
  std::set<std::int64_t> processes;
};

/// One GPU under the monitor. Thread-safe. Only `read` and `use` wait for the driver; the other
/// functions use earlier readings.
class GpuChannel {
 public:
  GpuChannel(Gpu& gpu, const MonitorOptions& options);

  /// Reads the sensors that are due; if `edge`, all sensors that matter at the edge of a window.
  void read(Clock& clock, bool edge);
  void use(const std::function<void(Gpu&)>& use);
  void open(std::uint64_t window, Instant begin);
  void drop(std::uint64_t window);
  /// \param unanswered  time since the call to a driver that has not answered, if any
  DeviceEnergy respond(std::uint64_t window, Instant end, WindowEnd kind,
                       std::optional<Seconds> unanswered) const;
  EnergyEstimate between(TimeSpan span) const;
  bool settled(Instant at) const;
  std::vector<CounterEdge> edges(Instant since) const;
  const GpuIdentity& identity() const { return gpu_->identity(); }

 private:
  void probe() HARPE_REQUIRES(driver_mutex_);
  bool count_try(Instant now) HARPE_REQUIRES(driver_mutex_);
  void look_at_reasons(Instant now) HARPE_REQUIRES(driver_mutex_);
  void look_at_processes(Instant now) HARPE_REQUIRES(driver_mutex_);
  bool took(const Error* error, Instant now) HARPE_REQUIRES(driver_mutex_);
  bool read_power(Clock& clock) HARPE_REQUIRES(driver_mutex_);
  bool read_counter(Clock& clock) HARPE_REQUIRES(driver_mutex_);

  Gpu* gpu_;
  const MonitorOptions* options_;

  Mutex driver_mutex_;  ///< guards driver calls and the members below; acquired before `mutex_`
  bool probed_ HARPE_GUARDED_BY(driver_mutex_) = false;
  bool has_counter_ HARPE_GUARDED_BY(driver_mutex_) = true,
                    has_instant_ HARPE_GUARDED_BY(driver_mutex_) = true,
                    has_average_ HARPE_GUARDED_BY(driver_mutex_) = true;
  bool has_reasons_ HARPE_GUARDED_BY(driver_mutex_) = true, has_processes_
                                                            HARPE_GUARDED_BY(driver_mutex_) = true;
  Seconds patience_ HARPE_GUARDED_BY(driver_mutex_){0};  ///< time until the retry after a failure
  Instant next_try_ HARPE_GUARDED_BY(driver_mutex_){},
      next_reasons_ HARPE_GUARDED_BY(driver_mutex_){},
      next_processes_ HARPE_GUARDED_BY(driver_mutex_){};

  mutable Mutex mutex_;  ///< guards the members below; never held during a driver call
  EnergyEstimator estimator_ HARPE_GUARDED_BY(mutex_);
  std::optional<Error> error_ HARPE_GUARDED_BY(mutex_);  ///< error of the last reading
  bool whole_module_ HARPE_GUARDED_BY(mutex_) = false;
  std::map<std::uint64_t, ChannelWindow> windows_ HARPE_GUARDED_BY(mutex_);
};

/// One CPU package and its memory under the monitor.
class CpuChannel {
 public:
  CpuChannel(Cpu& cpu, const MonitorOptions& options);

  Mutex mutex;  ///< guards all members below

  void read(Clock& clock) HARPE_REQUIRES(mutex);
  bool due(Instant now, Seconds interval) const HARPE_REQUIRES(mutex) {
    return now >= last_read_ + interval;
  }
  void open(std::uint64_t window, Instant begin) HARPE_REQUIRES(mutex);
  void drop(std::uint64_t window) HARPE_REQUIRES(mutex);
  void respond(std::uint64_t window, Instant end, WindowEnd kind,
               std::vector<DeviceEnergy>& into) const HARPE_REQUIRES(mutex);

 private:
  Cpu* cpu_;
  EnergyEstimator package_ HARPE_GUARDED_BY(mutex), dram_ HARPE_GUARDED_BY(mutex);
  std::optional<Error> error_ HARPE_GUARDED_BY(mutex);
  Instant last_read_ HARPE_GUARDED_BY(mutex){};
  std::map<std::uint64_t, ChannelWindow> windows_ HARPE_GUARDED_BY(mutex);
};

}  // namespace harpe::device
