#pragma once
/// \file
/// The energy of one command, measured from beside it: a driver that is slow or hangs delays
/// neither the command nor its end.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/carbon/carbon/energy_ledger.h"
#include "harpe/device/measure/energy_monitor.h"

namespace harpe::command {

// Splitting the energy of a command by intervals of UTC, from readings taken while it ran.

/// The energy that a command had used at a moment of its run.
struct EnergySoFar {
  Seconds after{};  ///< its begin
  Joules energy{}, host{};
};
/// Of all devices; CPUs and memory apart.
EnergySoFar energy_so_far(const WindowEnergy& window);

/// When the next interval begins, in seconds since 1970.
double next_boundary(double time, carbon::WholeSeconds step);

/// Spreads what a command used over intervals: between two readings evenly, so that their sum is
/// what the whole window says. Where one reading says more than a later one or the whole, the later
/// holds. Errors are those of the whole, in proportion to the energy: a boundary is known as well
/// as a step of the counter. `readings` by rising time; may be empty.
carbon::EnergyLedger command_ledger(const std::vector<EnergySoFar>& readings,
                                    const WindowEnergy& whole, carbon::WholeSeconds step);

/// Call `prepare`, `begin`, `end`, `used` and `stop` in this order. If `used` gives up or `stop`
/// returns false, a thread waits in a driver's call that nothing can end: the process must then
/// leave by `_Exit`, and neither this nor the devices may be destroyed.
class CommandMeter {
 public:
  /// The devices and the clock must outlive it.
  /// \param step  of UTC: at each, what was used so far is read
  CommandMeter(std::vector<Gpu*> gpus, std::vector<Cpu*> cpus, Clock& clock, std::string name,
               carbon::WholeSeconds step);
  /// Calls `stop`.
  ~CommandMeter();
  CommandMeter(const CommandMeter&) = delete;
  CommandMeter& operator=(const CommandMeter&) = delete;

  /// Reads the devices for half a second, so that it is known how they were before the command;
  /// where there is no GPU, once. Waits for it no longer than that.
  void prepare(Seconds longest);
  /// Measures the devices from `prepare` on, other windows, too; not to be used after `end`. Null
  /// where they did not answer in time.
  EnergyMonitor* monitor() const;
  /// The command begins, and ends, at the time of these calls, or a little before.
  void begin();
  void end(std::optional<Instant> at = {});
  /// Waits until the devices were read for two more steps of their counters; for those that are
  /// slow a few seconds, for those that hang no longer. None: that took `longest`, or `give_up`
  /// (asked every 50 ms) says so.
  std::optional<Result<WindowEnergy>> used(Seconds longest, const std::function<bool()>& give_up);

  /// Those of every step, after `used`.
  std::vector<EnergySoFar> readings() const;

  /// Ends the measurement and waits for its thread. Returns false if a driver's call still runs,
  /// which takes 0.2 s to find out. Further calls return the same at once.
  [[nodiscard]] bool stop();

  /// The devices before the command began; none where they did not answer in time.
  std::optional<WindowEnergy> before() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace harpe::command
