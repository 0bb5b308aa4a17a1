#pragma once
/// \file
/// What a given plan takes on real GPUs: its pipeline replayed with transfers, loading, late clock
/// switches and a fixed extra.

#include <vector>

#include "harpe/frontier/plan.h"
#include "harpe/profile/profile.h"

namespace harpe {

struct PredictOptions {
  /// Seconds from asking for a clock (at the instruction's start) until it is in force.
  Seconds switch_latency{0};
  /// Seconds that every iteration takes on top (optimizer, logging, gradient reduction).
  Seconds fixed_extra{0};
};

struct Prediction {
  Seconds iteration_time;
  Joules iteration_energy;
};

/// Replays a plan. Instructions run in order; the first seconds of an instruction after a clock
/// change run at the old clock: t = w t_old + (1 - w) t_new with w = min(1, latency / t_old), and
/// energy likewise.
Result<Prediction> predict(const Plan& plan, const Profile& profile, const PredictOptions& options);

}  // namespace harpe
