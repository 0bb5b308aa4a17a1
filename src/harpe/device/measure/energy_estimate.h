#pragma once
/// \file
/// What one device used in a window of time, with an error bar and the source of the figure.
///
///   const harpe::EnergyEstimate used = window.total();  // see energy_monitor.h
///   std::printf("%.1f J +- %.1f J by %s\n", used.energy.value, used.error.value,
///               std::string(harpe::source_name(used.source)).c_str());
///
/// The statistical error says how far the result may be from what a perfect reading of the same
/// sensors would have said: not knowing just when the counter stepped, noise, and power that
/// changed between readings. The sensor's own accuracy is another matter, is no smaller in longer
/// windows, and is given apart.

#include <optional>
#include <string>
#include <string_view>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"

namespace harpe {

/// Where joules come from.
enum class EnergySource : unsigned char {
  kNone,             ///< nothing could be read
  kCounter,          ///< the device's energy counter
  kCounterAndPower,  ///< the counter, its edges corrected by sampled power
  kPowerInOneStep,   ///< power within one step of the counter, in the counter's scale
  kPower,            ///< integrated instant power
  kAveragePower,     ///< integrated power which the sensor averages over a time
};
std::string_view source_name(EnergySource source);

/// How far the sensor itself may be off, as a share of the reading, and who says so.
struct SensorAccuracy {
  double share = 0.05;
  std::string source{};
};

/// Answer for one window.
struct EnergyEstimate {
  Joules energy{};
  Joules error{};         ///< half-width of the 95 % interval; see above what it covers
  Joules sensor_error{};  ///< accuracy of the sensor; apart from `error`
  Seconds time{};
  EnergySource source = EnergySource::kNone;
  Seconds unobserved{};  ///< of `time`: in holes between samples, as while suspended
  /// Of the window, after the device failed: nothing of it is in `energy`, which is the least that
  /// was used, nor in `time`.
  Seconds missing{};
  int restarts = 0;  ///< of the counter inside the window; bridged by power
  /// Joules of the counter per joule of integrated power over the last seconds: 1 where both
  /// sensors agree.
  std::optional<double> counter_per_power{};

  Watts mean_power() const { return time.value > 0 ? energy / time : Watts{0}; }
};

/// Whether the estimate has an error bar: 0 is what nothing can be known by.
bool error_known(const EnergyEstimate& energy);

/// A moment when the energy counter stepped: what it says is then right, and stale until the next.
struct CounterEdge {
  Instant time{};
  Seconds sigma{};  ///< standard deviation of `time`
  Joules energy{};  ///< on an axis that restarts of the counter do not break
  /// Of the counter so far; energy between edges that differ is bridged by power.
  int restarts = 0;
  Instant earliest{}, latest{};  ///< it surely came between these
};

}  // namespace harpe
