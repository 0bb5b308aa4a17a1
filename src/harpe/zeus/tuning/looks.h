#pragma once
/// \file
/// When a run goes back to its highest setting for some steps, to compare the setting chosen with
/// it (saving_account.h), and for how long.
///
/// The first look is due after 80 steps (40 if an earlier run's profile chose the setting), the
/// next after 8 times as many steps as a look takes, and after each look that agrees with the one
/// before the time doubles, until looks take 1 % of the steps. A look that disagrees begins again
/// at 8 times. Each of these is varied from 0.7 to 1.3 times, by a sequence without a period, so
/// that looks meet all phases of a job whose steps are periodic.
///
/// Where a slowdown is bound, a run whose time is beyond that bound also goes back, and stays until
/// it is within again: the bound holds over the whole run, trials included. Pure; not thread-safe.

#include <cstdint>

#include "harpe/zeus/tuning/saving_account.h"

namespace harpe {

class Looks {
 public:
  /// A setting was chosen.
  void begin(bool by_earlier_run);
  /// A step has ended.
  void step() { ++steps_; }
  /// Steps since the last change of the setting.
  std::int64_t steps() const { return steps_; }
  /// Something has changed: the next look is due within some tens of steps.
  void want();
  bool is_due() const { return !under_way_ && (owes_ || steps_ >= due_); }

  void start();
  bool under_way() const { return under_way_; }
  /// Steps of the look were measured.
  void add(std::int64_t measured) { measured_ += measured; }
  /// True if the look has enough measured steps and no time is owed. A look whose steps cannot be
  /// measured is complete after 400 steps.
  bool is_complete() const;
  /// \param has_moved  the look disagrees with the one before
  void end(bool has_moved);

  /// \param most_slowdown  time over that at the highest setting, at least 1
  void owe(const SavingAccount::Delay& delay, double most_slowdown);
  bool owes() const { return owes_; }

 private:
  double next_phase();
  void wait(std::int64_t steps);

  bool under_way_ = false, owes_ = false;
  std::int64_t steps_ = 0, interval_ = 0, due_ = 0, measured_ = 0;
  double phase_ = 0;  ///< 0 to 1
};

}  // namespace harpe
