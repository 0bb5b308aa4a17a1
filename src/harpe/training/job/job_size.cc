#include "harpe/training/job/job_size.h"

#include <algorithm>
#include <cstdint>

#include "harpe/plan/policy/plan_table.h"

namespace harpe::training {
namespace {

/// Size of a stage's numbers and lists in a plan, in clocks.
constexpr std::int64_t kCellsOfStage = 64;

// Measured: resident memory of servers with many jobs, docs/performance.md.
constexpr std::size_t kBytesOfJob = 48 * 1024, kBytesOfInstruction = 256, kBytesOfRank = 192;
// Declared ranks per byte: each takes some bits before any rank registers.
constexpr std::size_t kDeclaredOfByte = 4;
constexpr std::size_t kBytesOfCell = 4, kBytesOfMeasured = 3 * 4 * 4;

/// Returns the size of a plan: a clock for each instruction, and some numbers for each stage.
std::int64_t cells_of_plan(const JobSpec& spec) {
  return std::max<std::int64_t>(1, instructions_of(spec) + kCellsOfStage * spec.shape.stages);
}

}  // namespace

int plans_of(const JobSpec& spec) {
  return static_cast<int>(std::clamp<std::int64_t>(plan::kMaxPlanCells / cells_of_plan(spec), 1,
                                                   std::max(1, spec.plans)));
}

std::size_t memory_of(const JobSpec& spec) {
  const auto instructions = static_cast<std::size_t>(instructions_of(spec));
  const auto cells = static_cast<std::size_t>(cells_of_plan(spec));
  const auto points = spec.profile ? spec.profile->entries().size() : 0;
  return kBytesOfJob + instructions * kBytesOfInstruction +
         static_cast<std::size_t>(plans_of(spec)) * cells * kBytesOfCell +
         static_cast<std::size_t>(spec.shape.ranks()) / kDeclaredOfByte + points * 1024;
}

std::size_t memory_of_measured(std::size_t items, int pipelines) {
  return items * static_cast<std::size_t>(pipelines) * kBytesOfMeasured;
}

std::size_t memory_of_ranks(std::size_t places, std::size_t clocks) {
  return places * kBytesOfRank + clocks * sizeof(Megahertz);
}

}  // namespace harpe::training
