#pragma once
/// \file
/// Energy ledger: the use of energy and devices by UTC interval, in joules with their error and
/// held device time. Grams can be computed from it again whenever a provider revises its
/// intensities.
///
///   harpe::carbon::EnergyLedger ledger(harpe::carbon::whole_minutes(15));
///   (void)ledger.add(began, ended, {.energy = 21'534_J, .device_time = 61_s});
///
/// Not thread-safe. No clock.

#include <cstddef>
#include <map>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {

/// Energy and device time. All members are additive over time and over devices.
struct EnergyUse {
  Joules energy = {};  ///< measured
  Joules host = {};    ///< part of `energy` used by CPUs and their memory
  /// Square of the half-width of the 95 % interval, in J^2: errors of different measurements are
  /// independent. A part of a measurement gets the same fraction of its variance, so that the parts
  /// add up to the error of the whole (the error of one part alone is rather too large than too
  /// small).
  double variance = 0;
  Joules sensor_error = {};   ///< possible error of all sensors in one direction
  Joules without_error = {};  ///< part of `energy` without a known `variance`
  Seconds device_time = {};   ///< for which devices were held: 1 h of 8 GPUs is 8 h
  Seconds measured = {};      ///< device time with known energy
  double iterations = 0;      ///< of training, in this time
  Seconds paused = {};        ///< for which training paused, whether or not it held devices

  EnergyUse& operator+=(const EnergyUse& other);
  friend EnergyUse operator+(EnergyUse a, const EnergyUse& b) { return a += b; }
  friend EnergyUse operator*(const EnergyUse& use, double share);

  Joules half_width() const;  ///< half-width of the 95 % interval of `energy`
  /// Returns held device time without an energy measurement. Reports arrive late, so the value is
  /// more reliable for a sum than for one interval.
  Seconds unmeasured() const;
  /// Returns true if every member is finite and not negative, and parts are no larger than the
  /// whole.
  bool sound() const;
};

/// The energy of consecutive intervals on a UTC grid.
class EnergyLedger {
 public:
  /// Limits on the length of one measurement and on the number of intervals.
  static constexpr WholeSeconds kLongest = whole_days(400);
  static constexpr std::size_t kMost = 1'000'000;

  /// \param step  of the grid; 1 s to a day, a divisor of a day
  explicit EnergyLedger(WholeSeconds step = whole_minutes(15));
  static bool is_step(WholeSeconds step);

  /// Spreads a use evenly over [from, to), in seconds since 1970. If `from` equals `to`, the
  /// interval that contains them gets all of it. Fails, without changing the ledger, if the use is
  /// not sound, if a time is before 1970 or after 2199, if the use is longer than `kLongest` or
  /// ends before it begins, or if there would be more than `kMost` intervals. O(intervals of the
  /// use).
  Status add(double from, double to, const EnergyUse& use);
  /// Adds the uses of another ledger. Fails if the steps differ, or above `kMost`.
  Status merge(const EnergyLedger& other);

  WholeSeconds step() const { return step_; }
  bool empty() const { return uses_.empty(); }
  std::size_t size() const { return uses_.size(); }
  /// Returns the uses by the start of their interval. Intervals without use are omitted.
  const std::map<UtcTime, EnergyUse>& uses() const { return uses_; }
  EnergyUse total() const;
  /// Returns the first start and the last end; both 1970 if the ledger is empty.
  UtcTime begin() const;
  UtcTime end() const;
  /// Returns the intervals that begin in [from, to).
  EnergyLedger part(UtcTime from, UtcTime to) const;

 private:
  UtcTime start_of(double time) const;

  WholeSeconds step_;
  std::map<UtcTime, EnergyUse> uses_;
};

}  // namespace harpe::carbon
