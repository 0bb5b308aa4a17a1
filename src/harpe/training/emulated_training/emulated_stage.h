#pragma once
/// \file
/// What a GPU makes of the instructions of its stage in one iteration, by costs that are known.
///
///   StageConditions now{.clock = run_before.clock};
///   const StageRun run = run_stage(schedule, costs, 0, assignment.clocks, now);

#include <optional>
#include <span>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/plan/frontier/stage_replay.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/training/wire/rank_events.h"

namespace harpe::training {

/// The clock of a GPU between two instructions.
using GpuClock = plan::SettingState<Megahertz>;

/// Of one GPU in one iteration.
struct StageConditions {
  GpuClock clock;                     ///< before the first instruction
  std::optional<Megahertz> cap = {};  ///< it never runs above, whatever is asked for
  double slowness = 1;                ///< factor on all its times and energies
  Seconds switch_latency{0};          ///< from asking for a clock until it is in force
};

struct StageRun {
  /// What each instruction took, as the stage's list.
  std::vector<OperatingPoint> instructions;
  GpuClock clock;          ///< after the last one
  bool throttled = false;  ///< it ran below a clock that was asked for
};

/// Runs the list of a stage by the engine of `predict`, see stage_replay.h.
/// \param costs   have every computation of the stage; between their clocks see `at_setting`.
///                Fixed-time instructions take the first point, or nothing where there is none
/// \param clocks  as in `StageAssignment`: one for all instructions, or one each; 0 MHz: as it is
StageRun run_stage(const Schedule& schedule, const Profile& costs, int stage,
                   std::span<const Megahertz> clocks, const StageConditions& conditions);

/// The computations of a stage, summed up as its rank reports them.
/// \param points  what each instruction took, as the stage's list
std::vector<InstructionTotals> totals_of(const Schedule& schedule, int stage,
                                         std::span<const OperatingPoint> points);

}  // namespace harpe::training
