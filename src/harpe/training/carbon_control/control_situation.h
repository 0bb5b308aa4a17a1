#pragma once
/// \file
/// What a decision of carbon control rests on. Of this room alone.

#include <optional>

#include "harpe/carbon/pacing/pace_curve.h"
#include "harpe/carbon/pacing/paced_job.h"
#include "harpe/carbon/pacing/pacing_plan.h"
#include "harpe/training/carbon_control/carbon_controller.h"
#include "harpe/training/carbon_control/intensity_outlook.h"

namespace harpe::training {

/// Work is in seconds at the fastest pace.
struct CarbonController::Situation {
  const ControlledJob& job;
  carbon::PaceCurve curve;
  Seconds fastest{};           ///< of an iteration
  carbon::PacingJob pacing{};  ///< its work is what is left; of unknown length it has no meaning
  double all = 0;              ///< work since control began
  double reserve = 0;          ///< work
  Seconds time_left{};         ///< until the deadline; of unknown length, as far as is looked ahead
  double needed = 0;           ///< work that a steady pace has to do in that time
  IntensityOutlook outlook{};
  carbon::PacedJobPast past{};  ///< of unknown length its state alone
};

}  // namespace harpe::training
