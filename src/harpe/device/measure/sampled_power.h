#pragma once
/// \file
/// Power of a device over time, from samples of its sensor, with the error of its integral.
///
/// Linear between samples, held beyond the first and the last. A sensor that is looked at more
/// often than it measures repeats itself: only new values tell something. How often it measures,
/// how noisy it is and how much power changes between samples is learned from the samples.

#include <deque>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"

namespace harpe::device {

/// Without a sensor, a power of 1 stands for every time, so that integrals are seconds. Not
/// thread-safe. Adding is O(1) amortised, a look-up O(log samples).
class SampledPower {
 public:
  /// Power sampled, with its integrals since the first sample.
  struct Point {
    Instant time{};
    double power = 0;
    double integral = 0;    ///< J
    double variance = 0;    ///< of `integral`, J^2
    double unobserved = 0;  ///< s
    double window = 0;      ///< that the sensor looked at up to then, most likely, s
    double longest = 0;     ///< and at most, s
    double blur = 0;        ///< how far off `time` may be, s
    bool repeats = false;   ///< no new measurement: the value is the one of the point before
  };
  /// Power and its integral at one instant.
  struct Integral {
    double power = 0, integral = 0, variance = 0, unobserved = 0;
  };

  /// \param longest_interval  samples further apart leave a hole
  explicit SampledPower(Seconds longest_interval) : longest_interval_(longest_interval.value) {}

  /// Adds a sample of the sensor. The first one replaces what stood for power without a sensor.
  void add(Instant time, double power);
  /// Adds an instant of a device without a power sensor.
  void add_without_sensor(Instant time);
  /// Sets the variance per second of the integral where no power is sampled.
  void set_rate(double rate) { rate_ = rate; }
  double rate() const { return rate_; }
  /// Forgets samples before an instant, but for the last one.
  void forget(Instant before);

  /// Returns true once the sensor has told something.
  bool has_sensor() const { return has_sensor_; }
  /// Returns true if the sensor measures more seldom than it is looked at.
  bool repeats() const { return repeating_; }
  double highest() const { return highest_; }  ///< W, of all samples
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
  Instant looked_{};             ///< at power, last
  bool repeating_ = false;       ///< the sensor measures more seldom than it is looked at
  bool repeated_ = false;        ///< power did not change since the newest point
  Instant renewed_{};            ///< when the newest value was seen first
  std::deque<double> renewals_;  ///< time between new values, s
  double sensor_period_ = 0.1;   ///< between measurements of the power sensor, s
  std::deque<Point> points_;
  std::deque<double> changes_;  ///< of power between neighbouring samples, W
  double noise_ = 0;            ///< standard deviation of a power sample, W
  double wander_ = 0;           ///< mean square change of power between samples, W^2
  double highest_ = 0;          ///< power seen, W
  double typical_interval_ = 0.02;
  double rate_ = 0;  ///< variance per second of the integral where no power is sampled
};

}  // namespace harpe::device
