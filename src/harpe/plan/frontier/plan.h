#pragma once
/// \file
/// A plan: one setting for every instruction of one iteration, with what it takes and how good it
/// provably is.
///
///   const harpe::Result<harpe::Plan> plan = harpe::read_plan("plan.json");
///   if (plan.ok()) set(plan->instructions[stage][position].setting());

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/plan/instruction/instruction.h"
#include "harpe/plan/instruction/setting.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/plan/schedule/transfers.h"

namespace harpe {

/// One instruction of a plan. Time and energy are per GPU and those of its setting in the profile.
struct PlannedInstruction {
  InstructionKind kind = InstructionKind::kForward;
  int chunk = 0;
  int micro_batch = -1;           ///< -1 where the instruction has none
  int backward_chunk = -1;        ///< second half of an overlapped block
  int backward_micro_batch = -1;  ///< second half of an overlapped block
  bool gradient = false;          ///< `send` and `recv`: a gradient travels
  /// Part of one instruction of the schedule with the next in the list, which starts when the whole
  /// may and ends with its last part: `recompute` and `backward` of a `recompute_backward`,
  /// `forward` and `backward` of a `forward_backward`, `backward` and `weight` of a full backward.
  /// A `switch` between two parts is one, too.
  bool fused_with_next = false;
  Megahertz clock = {};  ///< 0 for instructions without a choice of clock
  Seconds start = {};
  Seconds time = {};
  Joules energy = {};
  Knobs knobs = {};  ///< none for instructions without a choice

  InstructionSetting setting() const { return {clock, knobs}; }
  friend bool operator==(const PlannedInstruction&, const PlannedInstruction&) = default;
};

/// A plan for one iteration of one pipeline.
struct Plan {
  std::string job = {};
  std::string schedule = {};  ///< name of the schedule
  bool synthetic = false;     ///< made from a synthetic profile, see `Profile::is_synthetic`
  int stages = 0;
  int micro_batches = 0;
  int chunks = 1;
  int gpus_per_stage = 1;
  std::vector<Watts> blocking_power = {};  ///< per GPU, one a stage
  Transfers transfers = {};
  std::vector<int> placement = {};  ///< stage of each model part
  int copies = 1;                   ///< independent models in `placement`, see `Schedule`
  /// Seconds from the start until the pipeline may go on: its makespan, or longer where it waits
  /// for a straggler.
  Seconds iteration_time = {};
  Joules iteration_energy = {};  ///< whole pipeline, all GPUs, blocking included
  /// No assignment of profiled clocks that ends by `iteration_time` needs less; 0 if not known.
  Joules lower_bound = {};
  std::vector<std::vector<PlannedInstruction>> instructions = {};  ///< one list a stage

  /// How far the energy is above the lower bound, as a fraction.
  double gap() const { return (iteration_energy - lower_bound) / lower_bound; }
  /// Number of times a stage changes its setting in an iteration, over all stages. The change from
  /// its last instruction to the first of the next iteration counts.
  int clock_changes() const;
  /// Whether some instruction has more than a clock set.
  bool has_knobs() const;
  /// True if an instruction of the schedule runs as several, see `fused_with_next`.
  bool runs_in_parts() const;
};

/// `harpe.plan/1`, see docs/formats.md: one instruction a line, numbers that read back the same.
/// Lines of a plan with more than 16,384 instructions have no spaces, a tenth of their bytes.
///
/// Every instruction has "microbatch", -1 where it has none. An overlapped block adds
/// "backward_chunk" and "backward_microbatch", a `send` or `recv` of a gradient "gradient": true, a
/// part of a whole that goes on "fused_with_next": true, one with knobs those that are given.
/// Left out are "lower_bound_j" when it is not known, "transfers" when there are none, "placement"
/// when part k stands on stage k % stages, "copies" when it is 1, and "synthetic" when it is false.
std::string plan_json(const Plan& plan);
/// Diagnostics carry line and column. Checks the types, ranges and sizes of everything, but not
/// that the lists make a pipeline: that is for `schedule_of`.
Result<Plan> parse_plan_json(std::string_view text, const std::string& file);
Result<Plan> read_plan(const std::filesystem::path& path);

/// The schedule that a plan follows: its lists without clocks, what is fused as one instruction.
/// Fails when an instruction names a chunk that its stage does not have, or is fused with what it
/// cannot be; `Pipeline::build` checks the rest.
Result<Schedule> schedule_of(const Plan& plan);

/// Whether `placement` has `chunks` parts for each stage, part k on stage k % stages.
bool is_looped(const std::vector<int>& placement, int stages, int chunks);

/// The plan as `freqs_pipeline_%05d.py`, the form Zeus's pipeline frequency server reads: per stage
/// a list of ('forward', MHz), ... with comment lines that give its cost. Listed are computations,
/// which training code announces to Zeus; 0 MHz (keep the clock) stands where there is no choice.
/// `kInvalidInput` for a plan with knobs, which this form has no place for.
Result<std::string> zeus_plan(const Plan& plan);

}  // namespace harpe
