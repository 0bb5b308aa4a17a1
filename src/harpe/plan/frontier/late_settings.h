#pragma once
/// \file
/// Settings that may be in force on a stage while its list runs.
///
/// A setting that is asked for comes into force at most its latency L later. Until then any setting
/// asked for before may be in force, also after the end of the instruction that the new one was
/// asked for. So each old setting x has the time R_x for which it may still be in force:
///   * when a setting with latency L is asked for, R_x becomes min(R_x, L) for every old setting,
///     and the setting asked for before becomes an old one with R = L;
///   * an instruction reduces every R_x by the least time that it can take. Waiting and fixed-time
///     instructions do not: the time they take is not certain.
///
/// An instruction may cost more than at the setting asked for, d. With t_x its time and v_x its
/// time or effective energy at x, it costs at most this much more:
///   the integral over s >= 0 of max over {x: R_x > s} of (v_x - v_d) / t_x, and at most
///   max over x of v_x - v_d; where this is negative, 0. With one old setting this is
///   min(1, R_x / t_x) (v_x - v_d). It is never too little, and may be too much where settings
///   that differ in energy most per second and most per instruction are both old.
/// A setting that was not measured for the instruction counts as its neighbours do: if it is the
/// only old one as the worse of them, else as if all of them were old.
/// Example: a change 30 ms late, instructions of 20 ms at the old setting and 16 ms at the new one.
/// The first may run at the old one altogether and take 4 ms more. If it took 16 ms, 14 ms are left
/// for the second: 14 / 20 of it may run at the old setting, so that it takes 2.8 ms more.

#include <span>
#include <vector>

#include "harpe/base/units.h"

namespace harpe::plan {

/// The state of a stage between two of its instructions. Settings are numbered by the caller.
class LateSettings {
 public:
  struct Old {
    int setting = 0;
    double left = 0;  ///< s; positive
    friend bool operator==(const Old&, const Old&) = default;
  };

  /// A setting that has been in force for long.
  explicit LateSettings(int setting = -1) : setting_(setting) {}

  void ask(int setting, Seconds latency);
  /// Reduces the time that is left for each old setting.
  void pass(Seconds time);

  int setting() const { return setting_; }  ///< that was asked for last
  std::span<const Old> old() const { return old_; }
  friend bool operator==(const LateSettings&, const LateSettings&) = default;

 private:
  int setting_;
  std::vector<Old> old_;  // each setting once, the one asked for never
};

/// An instruction at an old setting.
struct AtOldSetting {
  double left = 0;  ///< s: for how long the setting may still be in force
  double time = 0;  ///< s: of the whole instruction
  double more = 0;  ///< time or cost of the whole instruction, above that at the setting asked for
};
/// Returns the most that the instruction may cost more, at least 0, in the unit of `more`. Reorders
/// its argument. O(n log n)
double most_more(std::span<AtOldSetting> old);
/// The same of one old setting.
double most_more(const AtOldSetting& old);

}  // namespace harpe::plan
