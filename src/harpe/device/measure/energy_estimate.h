#pragma once
/// \file
/// The energy of one device in a window of time, with an error bar and the source of the figure.
///
///   const harpe::EnergyEstimate used = window.total();  // see energy_monitor.h
///   std::printf("%.1f J +- %.1f J by %s\n", used.energy.value, used.error.value,
///               std::string(harpe::source_name(used.source)).c_str());
///
/// The statistical error estimates the difference from a perfect reading of the same sensors. Its
/// causes are the unknown instants of the counter's steps, noise, and power that changed between
/// readings. The sensor's own accuracy is separate and does not improve in longer windows.

#include <optional>
#include <string>
#include <string_view>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"

namespace harpe {

/// The source of a figure in joules.
enum class EnergySource : unsigned char {
  kNone,             ///< nothing could be read
  kCounter,          ///< the device's energy counter
  kCounterAndPower,  ///< the counter, its edges corrected by sampled power
  kPowerInOneStep,   ///< power within one step of the counter, in the counter's scale
  kPower,            ///< integrated instant power
  kAveragePower,     ///< integrated power from a sensor that reports averages
};
std::string_view source_name(EnergySource source);

/// The largest error of the sensor itself, as a share of the reading, and its source.
struct SensorAccuracy {
  double share = 0.05;
  std::string source{};
};

/// The estimate for one window.
struct EnergyEstimate {
  Joules energy{};
  Joules error{};         ///< half-width of the 95 % interval, 0 if unknown; see the file comment
  Joules sensor_error{};  ///< error from the sensor's accuracy; not part of `error`
  Seconds time{};
  EnergySource source = EnergySource::kNone;
  Seconds unobserved{};  ///< part of `time` in gaps between samples, as during a suspend
  /// The part of the window after the device failed, which `energy` (then a lower bound) and `time`
  /// do not include.
  Seconds missing{};
  int restarts = 0;  ///< number of counter restarts in the window, bridged by power
  /// Joules of the counter per joule of integrated power over the last seconds; 1 if they agree.
  std::optional<double> counter_per_power{};

  Watts mean_power() const { return time.value > 0 ? energy / time : Watts{0}; }
};

/// Returns true if the estimate has an error bar: `error` is above 0 and no time is missing.
bool error_known(const EnergyEstimate& energy);

/// A step of the energy counter. The counter is exact at a step and stale until the next.
struct CounterEdge {
  Instant time{};
  Seconds sigma{};  ///< standard deviation of `time`
  Joules energy{};  ///< value on an axis that is continuous over restarts of the counter
  /// Number of counter restarts so far. If two edges differ in it, the energy between them is
  /// bridged by power.
  int restarts = 0;
  Instant earliest{}, latest{};  ///< proven bounds on the time of the step
};

}  // namespace harpe
