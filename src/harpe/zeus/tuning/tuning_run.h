#pragma once
/// \file
/// The thread that tunes a job from beside: looks at its file of steps, drives the tuner, keeps the
/// lease. It sleeps 5 ms between looks, which cost a system call each.

#include <memory>

#include "harpe/base/clock.h"
#include "harpe/zeus/tuning/tuner.h"

namespace harpe::zeus {

/// Ends the tuning of a job that has ended: waits until the tuner knows the last energy, and
/// restores the settings that were in force before.
void finish_tuning(Tuner& tuner, KnobSetter& setter, Clock& clock);

class TuningRun {
 public:
  /// Starts the thread. The tuner has been started; everything given must outlive this, and is used
  /// by its thread alone until `finish`.
  TuningRun(StepFile& steps, Tuner& tuner, KnobSetter& setter, Clock& clock);
  ~TuningRun();
  TuningRun(const TuningRun&) = delete;
  TuningRun& operator=(const TuningRun&) = delete;

  /// The job has ended: takes the last steps and windows, restores what was found. Waits for it: a
  /// second or so; ten where the agent does not answer.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace harpe::zeus
