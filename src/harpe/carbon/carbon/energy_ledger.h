#pragma once
/// \file
/// What something used, by interval of UTC: joules with their error, and the time that devices were
/// held for it. Kept so, grams can be computed again whenever a provider revises its intensities.
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

/// All members add up: uses of parts of a time, or of several devices, sum to that of the whole.
struct EnergyUse {
  Joules energy = {};  ///< measured
  Joules host = {};    ///< of it, of CPUs and their memory
  /// Square of the half-width of the 95 % interval, in J^2: errors of different measurements are
  /// independent. A part of a measurement gets the same part of it, so that the whole has its own
  /// error again (and a part alone rather too much than too little).
  double variance = 0;
  Joules sensor_error = {};   ///< by which sensors may be off, all in one direction
  Joules without_error = {};  ///< of `energy`, what has no known `variance`
  Seconds device_time = {};   ///< that devices were held: an hour of 8 GPUs are 8 hours
  Seconds measured = {};      ///< that of devices whose energy is known
  double iterations = 0;      ///< of training, done meanwhile
  Seconds paused = {};        ///< that training paused, whatever it held meanwhile

  EnergyUse& operator+=(const EnergyUse& other);
  friend EnergyUse operator+(EnergyUse a, const EnergyUse& b) { return a += b; }
  friend EnergyUse operator*(const EnergyUse& use, double share);

  Joules half_width() const;  ///< of the 95 % interval of `energy`
  /// Held, without a measurement of energy. Reports come late, so it means little of one interval
  /// and more of a sum.
  Seconds unmeasured() const;
  /// Whether every member is finite and none negative, and parts are no larger than the whole.
  bool sound() const;
};

/// The energy of one time after another, on a grid of UTC.
class EnergyLedger {
 public:
  /// Longest time of one measurement, and most intervals.
  static constexpr WholeSeconds kLongest = whole_days(400);
  static constexpr std::size_t kMost = 1'000'000;

  /// \param step  of the grid; 1 s to a day, and divides a day
  explicit EnergyLedger(WholeSeconds step = whole_minutes(15));
  static bool is_step(WholeSeconds step);

  /// Spreads a use evenly over [from, to), in seconds since 1970. Where both are the same, all of
  /// it falls into the interval that holds them. Fails on a use that is not sound, a time before
  /// 1970 or after 2199, one that is longer than `kLongest` or ends before it begins, and where
  /// there would be more than `kMost` intervals; the ledger is then as it was. O(intervals of it).
  Status add(double from, double to, const EnergyUse& use);
  /// Adds what another has. Fails where steps differ, and over `kMost`.
  Status merge(const EnergyLedger& other);

  WholeSeconds step() const { return step_; }
  bool empty() const { return uses_.empty(); }
  std::size_t size() const { return uses_.size(); }
  /// By the start of their interval. Intervals in which nothing happened are not there.
  const std::map<UtcTime, EnergyUse>& uses() const { return uses_; }
  EnergyUse total() const;
  /// First start and last end; both 1970 where it is empty.
  UtcTime begin() const;
  UtcTime end() const;
  /// Intervals that begin in [from, to).
  EnergyLedger part(UtcTime from, UtcTime to) const;

 private:
  UtcTime start_of(double time) const;

  WholeSeconds step_;
  std::map<UtcTime, EnergyUse> uses_;
};

}  // namespace harpe::carbon
