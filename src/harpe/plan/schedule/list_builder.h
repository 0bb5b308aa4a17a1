#pragma once
/// \file
/// Shared parts of all schedule generators: sizes, placement of parts, appending to a list.

#include <string_view>
#include <vector>

#include "harpe/plan/schedule/schedule.h"

namespace harpe::plan {

/// The placement of model parts on p stages.
enum class Placement {
  kLoop,  ///< part k on stage k mod p; with one chunk, the plain pipeline
  kV,     ///< two chunks: stage r holds parts r and 2p - 1 - r
};

/// Returns a schedule with its placement and empty lists, or an error if the sizes are not valid.
/// \param instructions_each  most instructions of one micro-batch on one part
Result<Schedule> start_schedule(std::string_view name, const ScheduleOptions& options, int chunks,
                                Placement placement, int instructions_each);

/// A builder of the list of one stage. Each function appends one instruction.
class ListBuilder {
 public:
  explicit ListBuilder(std::vector<Instruction>& list) : list_(list) {}

  void forward(int part, int micro_batch) { add(InstructionKind::kForward, part, micro_batch); }
  /// Appends a full backward, or the input gradient if a `weight` follows.
  void backward(int part, int micro_batch) { add(InstructionKind::kBackward, part, micro_batch); }
  void weight(int part, int micro_batch) { add(InstructionKind::kWeight, part, micro_batch); }
  void recompute(int part, int micro_batch) { add(InstructionKind::kRecompute, part, micro_batch); }
  void recompute_backward(int part, int micro_batch) {
    add(InstructionKind::kRecomputeBackward, part, micro_batch);
  }
  void forward_backward(int part, int micro_batch, int backward_part, int backward_micro_batch) {
    list_.push_back({.kind = InstructionKind::kForwardBackward,
                     .part = part,
                     .micro_batch = micro_batch,
                     .backward_part = backward_part,
                     .backward_micro_batch = backward_micro_batch});
  }

 private:
  void add(InstructionKind kind, int part, int micro_batch) {
    list_.push_back({.kind = kind, .part = part, .micro_batch = micro_batch});
  }

  std::vector<Instruction>& list_;
};

/// Calls `fill(list, stage)` for the list of each stage. Returns an error unchanged.
template <class Fill>
Result<Schedule> with_lists(Result<Schedule> schedule, Fill fill) {
  if (!schedule.ok()) return schedule;
  for (int stage = 0; stage < schedule->stages; ++stage)
    fill(ListBuilder(schedule->lists[stage]), stage);
  return schedule;
}

}  // namespace harpe::plan
