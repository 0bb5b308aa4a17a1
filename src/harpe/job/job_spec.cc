#include "harpe/job/job_spec.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "harpe/job/job_work.h"
#include "harpe/policy/plan_table.h"

namespace harpe {
namespace {

/// Doubles and lists of a stage in a plan, in clocks.
constexpr std::int64_t kCellsOfStage = 64;

// Measured: resident memory of servers with many jobs, docs/performance.md.
constexpr std::size_t kBytesOfJob = 48 * 1024, kBytesOfInstruction = 256, kBytesOfRank = 192;
constexpr std::size_t kBytesOfCell = 4, kBytesOfMeasured = 3 * 4 * 4;

std::string over(std::int64_t value, const std::string& what, std::int64_t most) {
  return std::to_string(value) + " " + what + ", more than the " + std::to_string(most) +
         " that a job may have";
}

/// The parts of the model that the fullest stage holds.
int most_parts(const Schedule& schedule) {
  std::vector<int> parts(static_cast<std::size_t>(std::max(0, schedule.stages)));
  for (const int stage : schedule.placement) {
    if (stage >= 0 && stage < schedule.stages) ++parts[static_cast<std::size_t>(stage)];
  }
  return parts.empty() ? 0 : std::ranges::max(parts);
}

/// What one plan holds: a clock for each instruction, and some numbers for each stage.
std::int64_t cells_of_plan(const JobSpec& spec) {
  return std::max<std::int64_t>(1, instructions_of(spec) + kCellsOfStage * spec.shape.stages);
}

void check_size(const JobSpec& spec, Faults& faults) {
  const std::int64_t instructions = instructions_of(spec);
  if (instructions > kMaxJobInstructions) {
    faults.add(over(instructions, "instructions an iteration", kMaxJobInstructions));
  }
  if (const int parts = most_parts(spec.schedule); parts > kMaxChunks) {
    faults.add(over(parts, "chunks a stage", kMaxChunks));
  }
}

/// Of a schedule that is valid.
void check_measured(const JobSpec& spec, Faults& faults) {
  const std::int64_t measured =
      static_cast<std::int64_t>(JobWork(spec.schedule).items()) * spec.shape.data;
  if (measured <= kMaxMeasured) return;
  faults.add(over(measured, "kinds of instructions over all pipelines and stages", kMaxMeasured));
}

}  // namespace

std::int64_t instructions_of(const JobSpec& spec) {
  std::int64_t count = 0;
  for (const auto& list : spec.schedule.lists) count += static_cast<std::int64_t>(list.size());
  return count;
}

int plans_of(const JobSpec& spec) {
  return static_cast<int>(
      std::clamp<std::int64_t>(kMaxPlanCells / cells_of_plan(spec), 1, std::max(1, spec.plans)));
}

std::size_t memory_of(const JobSpec& spec) {
  const auto instructions = static_cast<std::size_t>(instructions_of(spec));
  const auto cells = static_cast<std::size_t>(cells_of_plan(spec));
  const auto points = spec.profile ? spec.profile->entries().size() : 0;
  return kBytesOfJob + instructions * kBytesOfInstruction +
         static_cast<std::size_t>(plans_of(spec)) * cells * kBytesOfCell +
         static_cast<std::size_t>(spec.shape.ranks()) * kBytesOfRank +
         JobWork(spec.schedule).items() * static_cast<std::size_t>(spec.shape.data) *
             kBytesOfMeasured +
         points * 1024;
}

Status validate(const JobSpec& spec) {
  Faults faults("the job");
  const JobShape& shape = spec.shape;
  if (shape.data < 1 || shape.stages < 1 || shape.tensor < 1) {
    faults.add("degrees of parallelism start at 1");
  } else if (std::int64_t{shape.data} * shape.stages > kMaxRanks / shape.tensor) {
    faults.add("more than the " + std::to_string(kMaxRanks) + " ranks that a job may have");
  }
  if (shape.stages > kMaxStages) faults.add(over(shape.stages, "stages", kMaxStages));
  if (spec.schedule.stages != shape.stages) {
    faults.add("the schedule has " + std::to_string(spec.schedule.stages) + " stages, the job " +
               std::to_string(shape.stages));
  }
  if (faults.empty()) check_size(spec, faults);
  if (!faults.empty()) return Error::invalid(std::move(faults));
  if (Status valid = validate(spec.schedule); !valid) {
    for (const Fault& fault : valid.error().faults) faults.add(fault.message);
  }
  if (faults.empty()) check_measured(spec, faults);
  for (const auto& list : spec.schedule.lists) {
    for (const Instruction& instruction : list) {
      if (instruction.kind != InstructionKind::kSwitch) continue;
      faults.add("the schedule holds clock switches: Harpe decides where clocks change");
      break;
    }
  }
  if (spec.profiling.most_iterations_per_clock < spec.profiling.iterations_per_clock) {
    faults.add("most_iterations_per_clock is below iterations_per_clock");
  }
  if (spec.profile && spec.profile->stages() > shape.stages) {
    faults.add("the profile has " + std::to_string(spec.profile->stages()) + " stages, the job " +
               std::to_string(shape.stages));
  }
  if (!faults.empty()) return Error::invalid(std::move(faults));
  return ok_status();
}

}  // namespace harpe
