#pragma once
/// \file
/// Windows of a job's GPUs by an energy monitor, which may measure other windows meanwhile.

#include "harpe/base/clock.h"
#include "harpe/device/measure/energy_monitor.h"
#include "harpe/zeus/tuning/window_meter.h"

namespace harpe {

class MonitorMeter final : public WindowMeter {
 public:
  /// Monitor and clock must outlive it.
  /// \param with_node  CPUs and their memory count, too, where they can be read
  MonitorMeter(EnergyMonitor& monitor, bool with_node, Clock& clock)
      : monitor_(monitor), with_node_(with_node), clock_(clock) {}

  Status begin(Instant at) override;
  bool settled(Instant at) const override { return monitor_.settled(at); }
  void settle(Instant at) override;
  /// Fails where a GPU gave no energy, or not all of it.
  Result<MeteredWindow> end(Instant at) override;
  void cancel() override;

 private:
  EnergyMonitor& monitor_;
  bool with_node_;
  Clock& clock_;
};

}  // namespace harpe
