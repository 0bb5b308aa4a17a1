#pragma once
/// \file
/// A plan lined up with its schedule, and the cost of late settings: for brute_force_testing.cc and
/// recost_testing.cc. Shares no code with the verifier.

#include <span>
#include <string>
#include <vector>

#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/profile/profile.h"

namespace harpe::plan {

/// One instruction of a schedule as a plan runs it.
struct PlannedRun {
  int stage = 0;
  std::vector<std::size_t> entries;  ///< in the plan's list: its parts, each after its `switch`
};

/// A plan's lists as instructions of its schedule.
struct PlannedWork {
  Schedule schedule;             ///< with the fixed-time instructions that the plan adds
  std::vector<PlannedRun> runs;  ///< stage after stage, in list order
  std::string mismatch = {};     ///< why the plan does not run the schedule; empty if it does
};

/// Returns the profile with rows for each chunk of the schedule. The chunks of a stage share its
/// rows equally.
Profile rows_of_chunks(const Profile& profile, const Schedule& schedule);

/// Lines up a plan with its schedule.
/// \param profile  with rows for each chunk, as in all functions below
PlannedWork planned_work(const Plan& plan, const Schedule& schedule, const Profile& profile);

/// Returns the halves of an instruction, in their order; the instruction itself if it has none.
std::vector<Instruction> halves_of(const Instruction& instruction, const Schedule& schedule,
                                   const Profile& profile);
/// Returns the instructions that run an instruction of the schedule, given the profile: its halves
/// if the profile has no rows for the whole. A backward that the schedule does not split is both
/// gradients if the schedule splits others, or if the profile has rows for the weight gradient.
std::vector<Instruction> runs_as(const Instruction& instruction, int stage,
                                 const Schedule& schedule, const Profile& profile);

/// Returns the chunk number of a part on its stage; 0 if the instruction has no part.
int chunk_of(const Schedule& schedule, int part);

/// Time and effective energy that late settings add to an instruction.
struct LateCost {
  long double time = 0;    ///< s
  long double energy = 0;  ///< J, effective
};
/// A computation of a stage: its measured points, and the one that it runs at.
struct LateRun {
  std::span<const OperatingPoint> points;
  OperatingPoint now;
};
/// Returns the cost of late settings for each computation of a stage that repeats its list. Old
/// settings may stay in force for up to the latency of the setting requested after them, across
/// instructions, and count if they cost time or energy (point_costs.h). A setting that was not
/// measured costs the worse of the measured settings with the same knobs at the next lower and
/// higher clock.
std::vector<LateCost> late_costs(std::span<const LateRun> list, Watts blocking_power,
                                 const LatencyByClock& latency);

}  // namespace harpe::plan
