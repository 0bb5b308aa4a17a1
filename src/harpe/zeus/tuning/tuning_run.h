#pragma once
/// \file
/// The thread that tunes a job of another process: it polls the step file, drives the tuner, and
/// renews the lease. It sleeps 5 ms between polls, which take one system call each.

#include <memory>

#include "harpe/base/clock.h"
#include "harpe/zeus/tuning/tuner.h"

namespace harpe::zeus {

/// Ends the tuning of a job that has ended: waits until the tuner knows the last energy, and
/// restores the settings that were in force before.
void finish_tuning(Tuner& tuner, KnobSetter& setter, Clock& clock);

class TuningRun {
 public:
  /// Starts the thread. The tuner must have been started. All arguments must outlive this object,
  /// and only its thread may use them until `finish`.
  TuningRun(StepFile& steps, Tuner& tuner, KnobSetter& setter, Clock& clock);
  ~TuningRun();
  TuningRun(const TuningRun&) = delete;
  TuningRun& operator=(const TuningRun&) = delete;

  /// Ends the tuning after the end of the job: processes the last steps and windows, and restores
  /// the settings that were in force before. Takes about a second, or ten if the agent does not
  /// respond.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace harpe::zeus
