#pragma once
/// \file
/// Where a rank stands in the list of its stage.
///
/// Training announces computations as it runs them. The cursor says which entry of the list each
/// one is: the next one where all is as planned, else the entry with the same kind, chunk and
/// micro-batch, from which it goes on. So that one more or one less announced never shifts the
/// clocks of all that follow.

#include <cstdint>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe::training {

/// Not thread-safe. `take`, `next` and `restart` allocate nothing; O(1), and O(list) in the worst
/// case where a micro-batch was left out.
class InstructionCursor {
 public:
  /// Fails where the schedule has no such stage, or its list no computation.
  static Result<InstructionCursor> make(const Schedule& schedule, int stage);

  struct Taken {
    int position = -1;     ///< in the stage's list; -1: this stage has no such instruction
    bool expected = true;  ///< it was the next one
  };
  /// \param micro_batch  -1: the next of that kind and chunk
  Taken take(InstructionKind kind, int chunk, int micro_batch) noexcept;

  /// Position of the next computation; -1 after the last.
  int next() const noexcept { return next_; }
  int first() const noexcept { return entries_.empty() ? -1 : entries_.front().position; }
  void restart() noexcept { go_to(0); }

  /// Length of the stage's list, with fixed-time instructions, which are not announced.
  std::size_t instructions() const { return instructions_; }
  /// Computations among them.

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
  /// Entry of (kind, chunk, micro-batch), -1 where there is none.
  std::vector<std::int32_t> index_;
  int chunks_ = 0, micro_batches_ = 0;
  std::size_t at_ = 0;
  int next_ = -1;
};

}  // namespace harpe::training
