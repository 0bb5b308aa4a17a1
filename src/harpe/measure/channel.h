#pragma once
/// \file
/// One device as the energy monitor follows it: its sensors, its estimator, the windows open on it.
/// Only for the monitor.

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "harpe/measure/energy_monitor.h"

namespace harpe {

/// Of one window on one device, beside energy.
struct ChannelWindow {
  Instant begin{};
  int energy = 0, dram = 0;  ///< handles of the estimators
  std::uint64_t failed_reads = 0;
  std::uint64_t looks = 0, throttled = 0;  ///< at the event reasons
  EventReasons reasons;
  std::set<std::int64_t> processes;
};

/// Follows one GPU. Thread-safe; only `read` and `use` wait for the driver, all else answers from
/// what was read.
class GpuChannel {
 public:
  GpuChannel(Gpu& gpu, const MonitorOptions& options);

  /// `edge`: all that matters for the edge of a window, whatever the intervals say.
  void read(Clock& clock, bool edge);
  void use(const std::function<void(Gpu&)>& use);
  void open(std::uint64_t window, Instant begin);
  void drop(std::uint64_t window);
  /// \param unanswered  for how long the driver has been called in vain, if it has; what it told up
  ///   to then counts
  DeviceEnergy answer(std::uint64_t window, Instant end, WindowEnd kind,
                      std::optional<Seconds> unanswered) const;
  EnergyEstimate between(TimeSpan span) const;
  bool settled(Instant at) const;
  std::vector<CounterEdge> edges(Instant since) const;
  const GpuIdentity& identity() const { return gpu_->identity(); }

 private:
  void probe();
  bool may_try(Instant now);
  void look_at_reasons(Instant now);
  void look_at_processes(Instant now);
  bool took(const Error* error, Instant now);
  bool read_power(Clock& clock);
  bool read_counter(Clock& clock);

  Gpu* gpu_;
  const MonitorOptions* options_;

  std::mutex driver_mutex_;  ///< of calls to the driver, and of what follows; taken first
  bool probed_ = false;
  bool has_counter_ = true, has_instant_ = true, has_average_ = true;
  bool has_reasons_ = true, has_processes_ = true;
  Seconds patience_{0};  ///< until the next try after a failure
  Instant next_try_{}, next_reasons_{}, next_processes_{};

  mutable std::mutex mutex_;  ///< of what follows; never held in a call to the driver
  EnergyEstimator estimator_;
  std::optional<Error> fault_;  ///< of the last reading
  bool whole_module_ = false;
  std::map<std::uint64_t, ChannelWindow> windows_;
};

/// Follows one CPU package and its memory.
class CpuChannel {
 public:
  CpuChannel(Cpu& cpu, const MonitorOptions& options);

  std::mutex mutex;

  void read(Clock& clock);
  bool due(Instant now, Seconds interval) const { return now >= last_read_ + interval; }
  void open(std::uint64_t window, Instant begin);
  void drop(std::uint64_t window);
  void answer(std::uint64_t window, Instant end, WindowEnd kind,
              std::vector<DeviceEnergy>& into) const;

 private:
  Cpu* cpu_;
  EnergyEstimator package_, dram_;
  std::optional<Error> fault_;
  Instant last_read_{};
  std::map<std::uint64_t, ChannelWindow> windows_;
};

}  // namespace harpe
