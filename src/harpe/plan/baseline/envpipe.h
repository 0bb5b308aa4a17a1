#pragma once
/// \file
/// EnvPipe's plan of a pipeline (Choi et al., USENIX ATC'23), for comparisons. Pure.
///
///   const harpe::Result<harpe::Plan> plan =
///       harpe::plan::envpipe_plan(frontier, harpe::plan::EnvPipeForm::kEmulated);
///
/// Algorithm. The outer envelope (all instructions of the last stage, the first forward and the
/// last backward of each stage) runs at the highest clock; all other instructions begin at a low
/// clock. While a critical path leaves the envelope, its instructions with the lowest clock get the
/// next higher clock. The result is one plan, without a frontier or a bound.

#include "harpe/base/result.h"
#include "harpe/plan/frontier/frontier.h"

namespace harpe::plan {

enum class EnvPipeForm : unsigned char {
  /// As published: one low clock for all instructions, the clock of least energy in steps of 90
  /// MHz, then steps of 30 MHz ("balanced"). Not implemented: the additional forwards that EnvPipe
  /// runs ahead, which change the schedule and need memory for activations.
  kPublished,
  /// As Perseus's artifact emulates it: each instruction begins at its slowest clock that no other
  /// beats in time and energy, then rises by one clock of the profile at a time; critical paths are
  /// computed from times rounded down to a millisecond.
  kEmulated,
};

/// Returns EnvPipe's plan with the profile's real times and energies. Always ends: if all
/// instructions of a critical path run at their highest clocks, the plan is done, even if the path
/// leaves the envelope (the artifact's loop does not end then).
/// \param pricing  only latency and dwell matter; the choice of clocks ignores both
/// \returns  `kInvalidInput` if the schedule has more than one chunk per stage, or
///           instructions with a choice of clocks other than forward and backward
Result<Plan> envpipe_plan(const Frontier& frontier, EnvPipeForm form,
                          const PlanOptions& pricing = {});

}  // namespace harpe::plan
