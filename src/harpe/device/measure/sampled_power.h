#pragma once
/// \file
/// Power of a device over time, from samples of its sensor, with the error of its integral.
///
/// Power is linear between samples, and constant before the first and after the last. A sensor that
/// is read more often than it measures repeats values, and only new values carry information. The
/// measurement interval, the noise and the change of power between samples are learned.

#include <deque>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"

namespace harpe::device {

/// Without a sensor, power is 1 at all times, so that integrals are seconds. Not thread-safe.
/// Adding is O(1) amortised, a look-up O(log samples).
class SampledPower {
 public:
  /// A sample of power, with the integrals since the first sample.
  struct Point {
    Instant time{};
    double power = 0;
    double integral = 0;    ///< J
    double variance = 0;    ///< variance of `integral`, J^2
    double unobserved = 0;  ///< total length of gaps so far, s
    double window = 0;      ///< most likely length of the sensor's measurement, s
    double longest = 0;     ///< greatest length of the sensor's measurement, s
    double blur = 0;        ///< largest error of `time`, s
    bool repeats = false;   ///< true if the value repeats the point before without a measurement
  };
  /// Power and its integral at one instant.
  struct Integral {
    double power = 0, integral = 0, variance = 0, unobserved = 0;
  };

  /// \param longest_interval  longest time between samples that leaves no gap
  explicit SampledPower(Seconds longest_interval) : longest_interval_(longest_interval.value) {}

  /// Adds a sample of the sensor. The first one replaces all instants added without a sensor.
  void add(Instant time, double power);
  /// Adds an instant of a device without a power sensor.
  void add_without_sensor(Instant time);
  /// Sets the variance per second of the integral without a sensor.
  void set_rate(double rate) { rate_ = rate; }
  double rate() const { return rate_; }
  /// Drops samples before an instant, but never the last sample.
  void forget(Instant before);

  /// Returns true after the first sample of the sensor.
  bool has_sensor() const { return has_sensor_; }
  /// Returns true if the sensor measures less often than it is read.
  bool repeats() const { return repeating_; }
  double highest() const { return highest_; }  ///< highest of all samples, W
  const std::deque<Point>& points() const { return points_; }
  Integral at(Instant time) const;

 private:
  void add_point(Instant time, double power);
  void add_first(Instant time, double power);
  void note_change(double change, double interval);
  void note_renewal(Instant time, double since_look);
  Integral held(const Point& point, double away) const;

  double longest_interval_;  // s
  bool has_sensor_ = false;
  Instant looked_{};             ///< time of the last sample
  bool repeating_ = false;       ///< true if the sensor measures less often than it is read
  bool repeated_ = false;        ///< true if power did not change since the newest point
  Instant renewed_{};            ///< time when the newest value was first seen
  std::deque<double> renewals_;  ///< times between new values, s
  double sensor_period_ = 0.1;   ///< time between measurements of the power sensor, s
  std::deque<Point> points_;
  std::deque<double> changes_;  ///< changes of power between neighbouring samples, W
  double noise_ = 0;            ///< standard deviation of a power sample, W
  double wander_ = 0;           ///< mean square change of power between samples, W^2
  double highest_ = 0;          ///< highest power seen, W
  double typical_interval_ = 0.02;
  double rate_ = 0;  ///< variance per second of the integral without a sensor
};

}  // namespace harpe::device
