#pragma once
/// \file
/// Meter of the energy of one command, on a thread of its own: a driver that is slow or hangs
/// delays neither the command nor its end.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/carbon/carbon/energy_ledger.h"
#include "harpe/device/measure/energy_monitor.h"

namespace harpe::command {

// Splits the energy of a command by intervals of UTC, from readings taken while it ran.

/// The energy that a command had used at a time of its run.
struct EnergySoFar {
  Seconds after{};  ///< time since its start
  Joules energy{}, host{};
};
/// Returns the energy of all devices, and that of CPUs and memory (`host`).
EnergySoFar energy_so_far(const WindowEnergy& window);

/// Returns the start of the next interval, in seconds since 1970.
double next_boundary(double time, carbon::WholeSeconds step);

/// Spreads the energy of a command over intervals, evenly between two readings, so that the sum is
/// the energy of the whole window. A reading above a later one or above the whole is lowered to it.
/// Each interval gets a part of the window's error, in proportion to its energy. A boundary is as
/// exact as a step of the counter.
/// \param readings  by rising time; may be empty
carbon::EnergyLedger command_ledger(const std::vector<EnergySoFar>& readings,
                                    const WindowEnergy& whole, carbon::WholeSeconds step);

/// Meter of a command's energy. Call `prepare`, `begin`, `end`, `used` and `stop` in this order. If
/// `used` gives up or `stop` returns false, a thread is blocked in a driver call that cannot be
/// ended: the process must then exit by `_Exit`, and neither this object nor the devices may be
/// destroyed.
class CommandMeter {
 public:
  /// The devices and the clock must outlive this object.
  /// \param step  of UTC: the energy so far is read at each multiple
  CommandMeter(std::vector<Gpu*> gpus, std::vector<Cpu*> cpus, Clock& clock, std::string name,
               carbon::WholeSeconds step);
  /// Calls `stop`.
  ~CommandMeter();
  CommandMeter(const CommandMeter&) = delete;
  CommandMeter& operator=(const CommandMeter&) = delete;

  /// Reads the devices for half a second, so that their state before the command is known; once if
  /// there is no GPU. Waits at most `longest`.
  void prepare(Seconds longest);
  /// Returns the monitor that has measured the devices since `prepare`, for other windows too. Must
  /// not be used after `end`. Null if the devices did not respond in time.
  EnergyMonitor* monitor() const;
  /// Mark the start and the end of the command, at the time of the call or, for `end`, at `at`.
  void begin();
  void end(std::optional<Instant> at = {});
  /// Waits until the devices have been read for two more steps of their counters: a few seconds for
  /// slow devices, no longer for devices that hang. Nullopt if that took `longest`, or if `give_up`
  /// (called every 50 ms) returned true.
  std::optional<Result<WindowEnergy>> used(Seconds longest, const std::function<bool()>& give_up);

  /// Returns the readings at every step. Call it after `used`.
  std::vector<EnergySoFar> readings() const;

  /// Ends the measurement and waits for its thread. Returns false if a driver call is still
  /// running, after 0.2 s. Further calls return the same result at once.
  [[nodiscard]] bool stop();

  /// Returns the readings before the command began; nullopt if the devices did not respond in time.
  std::optional<WindowEnergy> before() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace harpe::command
