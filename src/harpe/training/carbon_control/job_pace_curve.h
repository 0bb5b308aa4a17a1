#pragma once
/// \file
/// A whole job as a PaceCurve: what an iteration of all its pipelines takes and uses under each of
/// its plans, with what iterations take beyond their pipelines.

#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/carbon/pacing/pace_curve.h"
#include "harpe/plan/policy/plan_table.h"

namespace harpe::training {

struct JobPaces {
  std::vector<carbon::PieceCost> iterations;  ///< under each plan
  int gpus = 1;                               ///< of the whole job
  Seconds fastest() const;
};

struct JobPacesOf {
  int pipelines = 1;
  int gpus = 1;                ///< of the whole job
  Seconds overhead{};          ///< of an iteration beyond its pipelines; GPUs wait meanwhile
  Seconds slowest_pipeline{};  ///< of a straggler, for which all wait; 0: there is none
};

/// Plans that a straggler makes the others wait for are left out. Never empty.
JobPaces job_paces(const plan::PlanTable& plans, const JobPacesOf& of);

}  // namespace harpe::training
