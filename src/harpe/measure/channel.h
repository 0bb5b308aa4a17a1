#pragma once
/// \file
/// One device as the energy monitor follows it: its sensors, its estimator, the windows open on it.
/// Only for the monitor.

#include <cstdint>
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

/// Follows one GPU. Not thread-safe but for `mutex`, which callers hold.
class GpuChannel {
 public:
  GpuChannel(Gpu& gpu, const MonitorOptions& options);

  mutable std::mutex mutex;

  /// `edge`: all that matters for the edge of a window, whatever the intervals say.
  void read(Clock& clock, bool edge);
  void open(std::uint64_t window, Instant begin);
  void drop(std::uint64_t window);
  DeviceEnergy answer(std::uint64_t window, Instant end, WindowEnd kind) const;
  EnergyEstimate between(TimeSpan span) const;
  bool settled(Instant at) const { return fault_.has_value() || estimator_.settled(at); }
  std::vector<CounterEdge> edges(Instant since) const { return estimator_.edges(since); }
  Gpu& gpu() { return *gpu_; }
  const Gpu& gpu() const { return *gpu_; }

 private:
  void look_at_reasons(Instant now);
  void look_at_processes(Instant now);
  void succeeded();
  void failed(Error error, Instant now);
  void read_power(Clock& clock);
  void read_counter(Clock& clock);

  Gpu* gpu_;
  const MonitorOptions* options_;
  bool has_counter_ = true, has_instant_ = true, has_average_ = true;
  bool has_reasons_ = true, has_processes_ = true;
  EnergyEstimator estimator_;
  std::optional<Error> fault_;  ///< of the last reading
  Seconds patience_{0};         ///< until the next try after a failure
  Instant next_try_{}, next_reasons_{}, next_processes_{};
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
