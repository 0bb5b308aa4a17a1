#pragma once
/// \file
/// A plan: one setting for every instruction of one iteration, with its time, its energy and a
/// lower bound of the energy.
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

/// One instruction of a plan. Time and energy are per GPU, from the profile at its setting.
struct PlannedInstruction {
  InstructionKind kind = InstructionKind::kForward;
  int chunk = 0;
  int micro_batch = -1;           ///< -1 if the instruction has none
  int backward_chunk = -1;        ///< chunk of the second half of an overlapped block
  int backward_micro_batch = -1;  ///< micro-batch of the second half of an overlapped block
  bool gradient = false;          ///< true if a `send` or `recv` transfers a gradient
  /// True if this entry and the next one in the list are parts of one instruction of the schedule.
  /// The first part starts when the whole may start, and the whole ends with its last part:
  /// `recompute` and `backward` of a `recompute_backward`, `forward` and `backward` of a
  /// `forward_backward`, `backward` and `weight` of a full backward. A `switch` between two parts
  /// is a part, too.
  bool fused_with_next = false;
  Megahertz clock = {};  ///< 0 for instructions without a choice of clock
  Seconds start = {};
  Seconds time = {};
  Joules energy = {};
  Knobs knobs = {};  ///< empty for instructions without a choice

  InstructionSetting setting() const { return {clock, knobs}; }
  friend bool operator==(const PlannedInstruction&, const PlannedInstruction&) = default;
};

/// A plan for one iteration of one pipeline.
struct Plan {
  std::string job = {};
  std::string schedule = {};  ///< name of the schedule
  bool synthetic = false;     ///< true if the profile is synthetic, see `Profile::is_synthetic`
  int stages = 0;
  int micro_batches = 0;
  int chunks = 1;
  int gpus_per_stage = 1;
  std::vector<Watts> blocking_power = {};  ///< per GPU, one per stage
  Transfers transfers = {};
  std::vector<int> placement = {};  ///< stage of each model part
  int copies = 1;                   ///< number of independent models, see `Schedule`
  /// Time from the start of the iteration until the next one may start: the makespan of the
  /// pipeline, or longer if it waits for a straggler.
  Seconds iteration_time = {};
  Joules iteration_energy = {};  ///< whole pipeline, all GPUs, blocking included
  /// Lower bound of the energy of all assignments of profiled settings that end by
  /// `iteration_time`; 0 if not known.
  Joules lower_bound = {};
  std::vector<std::vector<PlannedInstruction>> instructions = {};  ///< one list per stage

  /// Returns how far the energy is above the lower bound, as a fraction of the bound.
  double gap() const { return (iteration_energy - lower_bound) / lower_bound; }
  /// Returns the number of changes of settings in an iteration, over all stages. The change from
  /// the last instruction of a stage to the first one of the next iteration counts.
  int clock_changes() const;
  /// Returns true if some instruction has knobs.
  bool has_knobs() const;
  /// Returns true if an instruction of the schedule runs in several parts, see `fused_with_next`.
  bool runs_in_parts() const;
};

/// Returns the plan in the format `harpe.plan/1`, see docs/formats.md: one instruction per line;
/// numbers are read back unchanged. In a plan with more than 16,384 instructions, these lines have
/// no spaces, which saves a tenth of their bytes.
///
/// Every instruction has "microbatch", -1 if it has none. An overlapped block also has
/// "backward_chunk" and "backward_microbatch". A `send` or `recv` of a gradient has "gradient":
/// true, every part of a split instruction but the last "fused_with_next": true, and an instruction
/// with knobs the knobs that are set. The writer omits "lower_bound_j" if it is not known,
/// "transfers" if there are none, "placement" if part k is on stage k % stages, "copies" if it is
/// 1, and "synthetic" if it is false.
std::string plan_json(const Plan& plan);
/// Parses `harpe.plan/1`. Checks all types, ranges and sizes, but not that the lists form a
/// pipeline, which `schedule_of` and `Pipeline::build` check. Diagnostics have line and column.
Result<Plan> parse_plan_json(std::string_view text, const std::string& file);
Result<Plan> read_plan(const std::filesystem::path& path);

/// Returns the schedule of a plan: its lists without clocks, with fused parts joined into one
/// instruction. Fails if an instruction names a chunk that its stage does not have, or if fused
/// parts do not form an instruction of a schedule; `Pipeline::build` checks the rest.
Result<Schedule> schedule_of(const Plan& plan);

/// Returns true if `placement` has `chunks` parts for each stage, with part k on stage k % stages.
bool is_looped(const std::vector<int>& placement, int stages, int chunks);

/// Returns the plan as `freqs_pipeline_%05d.py`, the format that Zeus's pipeline frequency server
/// reads: for each stage a list of ('forward', MHz), ..., and comment lines with the cost of the
/// plan. The lists contain only computations, which training code announces to Zeus. A computation
/// without a choice has 0 MHz, which keeps the clock. Returns `kInvalidInput` for a plan with knobs
/// or with instructions in parts, which the format cannot express.
Result<std::string> zeus_plan(const Plan& plan);

}  // namespace harpe
