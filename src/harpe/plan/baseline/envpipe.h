#pragma once
/// \file
/// EnvPipe's plan of a pipeline (Choi et al., USENIX ATC'23), for comparisons. Pure.
///
///   const harpe::Result<harpe::Plan> plan =
///       harpe::plan::envpipe_plan(frontier, harpe::plan::EnvPipeForm::kEmulated);
///
/// Algorithm. The outer envelope (all instructions of the last stage, the first forward and the
/// last backward of each stage) runs at the highest clock; all other instructions begin at a low
/// one. While a critical path leaves the envelope, the instructions on it with the lowest clock get
/// the next higher clock. The result is one plan, without a frontier or a bound.

#include "harpe/base/result.h"
#include "harpe/plan/frontier/frontier.h"

namespace harpe::plan {

enum class EnvPipeForm : unsigned char {
  /// As published: one low clock for all, that of least energy in steps of 90 MHz, then steps of
  /// 30 MHz ("balanced"). Left out: the additional forwards that it runs ahead, which change the
  /// schedule and take memory for activations.
  kPublished,
  /// As Perseus's artifact emulates it: each instruction begins at its slowest clock that no other
  /// beats in time and energy, then takes one clock of the profile at a time; critical paths are
  /// found in times rounded down to a millisecond.
  kEmulated,
};

/// Returns the plan that EnvPipe comes to, priced with the profile's real times and energies.
/// Always ends: if all instructions of a critical path run at their highest clocks, the plan is
/// done, even if the path leaves the envelope (the artifact's loop does not end then).
/// \param pricing  of which latency and dwell matter; the choice of clocks ignores both
/// \returns  `kInvalidInput` if the schedule has more than one chunk a stage, or instructions with
///           a choice of clocks other than forward and backward
Result<Plan> envpipe_plan(const Frontier& frontier, EnvPipeForm form,
                          const PlanOptions& pricing = {});

}  // namespace harpe::plan
