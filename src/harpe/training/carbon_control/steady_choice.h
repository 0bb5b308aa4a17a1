#pragma once
/// \file
/// One pace all along, of those that do what is needed in the time the one of least grams: what a
/// plan has to be better than, and what a job runs at that has no forecast to act on.
///
/// Pure. O(paces x intervals).

#include <vector>

#include "harpe/base/units.h"
#include "harpe/carbon/pacing/pace_curve.h"
#include "harpe/carbon/pacing/pacing_plan.h"

namespace harpe {

struct SteadyChoice {
  SteadyPace pace = {};
  double grams = 0;  ///< of the job's work, at that pace
};

/// The fastest pace where none does what is needed. Where no intensity is known, all hours are
/// alike.
/// \param needed  in `time`: seconds at the fastest pace
/// \param intervals  from now on, weights in grams a joule; the last goes on
SteadyChoice best_steady(const PaceCurve& curve, const PacingJob& job, double needed, Seconds time,
                         const std::vector<PacingInterval>& intervals);

}  // namespace harpe
