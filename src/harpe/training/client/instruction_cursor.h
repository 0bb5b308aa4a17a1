#pragma once
/// \file
/// The position of a rank in the instruction list of its stage.
///
/// Training announces computations as it runs them. The cursor finds the entry of each one in the
/// list: the next entry if training follows the schedule, else the one with the same kind, chunk
/// and micro-batch, after which it continues. So an additional or missing announcement never shifts
/// the clocks of all later instructions.

#include <cstdint>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe::training {

/// Not thread-safe. `take`, `next` and `restart` allocate nothing; O(1), and O(list) in the worst
/// case if a micro-batch was left out.
class InstructionCursor {
 public:
  /// Makes a cursor. Fails if the schedule has no such stage, or its list no computation.
  static Result<InstructionCursor> make(const Schedule& schedule, int stage);

  struct Taken {
    int position = -1;     ///< in the stage's list; -1 if the stage has no such instruction
    bool expected = true;  ///< true if it was the next one
  };
  /// Moves behind an announced computation.
  /// \param micro_batch  -1: the next of that kind and chunk
  Taken take(InstructionKind kind, int chunk, int micro_batch) noexcept;

  /// Returns the position of the next computation; -1 after the last.
  int next() const noexcept { return next_; }
  int first() const noexcept { return entries_.empty() ? -1 : entries_.front().position; }
  void restart() noexcept { go_to(0); }

  /// Returns the length of the stage's list, with fixed-time instructions, which are not announced.
  std::size_t instructions() const { return instructions_; }

 private:
  struct Entry {
    InstructionKind kind = InstructionKind::kForward;
    int chunk = 0, micro_batch = -1, position = 0;
  };
  bool fits(const Entry& entry, InstructionKind kind, int chunk, int micro_batch) const noexcept {
    return entry.kind == kind && entry.chunk == chunk &&
           (micro_batch < 0 || entry.micro_batch < 0 || entry.micro_batch == micro_batch);
  }
  void go_to(std::size_t entry) noexcept;

  std::size_t instructions_ = 0;
  std::vector<Entry> entries_;  ///< computations in the list's order
  /// Entry of (kind, chunk, micro-batch); -1 if there is none.
  std::vector<std::int32_t> index_;
  int chunks_ = 0, micro_batches_ = 0;
  std::size_t at_ = 0;
  int next_ = -1;
};

}  // namespace harpe::training
