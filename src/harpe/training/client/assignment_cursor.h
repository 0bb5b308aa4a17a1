#pragma once
/// \file
/// Where training is: in which iteration, by which assignment, at which instruction.
///
/// There may be two of one training: where its calls are, and where its device is.

#include <cstdint>
#include <utility>

#include "harpe/base/units.h"
#include "harpe/plan/instruction/knobs.h"
#include "harpe/training/client/assignment_book.h"
#include "harpe/training/client/instruction_cursor.h"
#include "harpe/training/client/wanted_clock.h"

namespace harpe::training {

/// Not thread-safe; allocates nothing and never waits.
class AssignmentCursor {
 public:
  /// \param reader  of the assignments, which must outlive this
  AssignmentCursor(InstructionCursor instructions, PublishedAssignments& assignments,
                   std::size_t reader)
      : instructions_(std::move(instructions)), assignments_(&assignments), reader_(reader) {}

  /// From where another one is.
  AssignmentCursor(const AssignmentCursor& other, std::size_t reader)
      : AssignmentCursor(other.instructions_, *other.assignments_, reader) {
    iteration_ = other.iteration_;
  }

  /// \param runs  whether training can run by an assignment; if not, it is as if there were none
  template <class Runs>
  void begin_iteration(std::int64_t iteration, const Runs& runs) noexcept {
    iteration_ = iteration;
    instructions_.restart();
    label_ = {};
    const AssignmentBook* book = assignments_->acquire(reader_);
    const auto run = [&](const RankAssignment* one) {
      return one != nullptr && runs(*one) ? one : nullptr;
    };
    known_ = book == nullptr ? nullptr : book->in_force(iteration);
    in_force_ = run(known_);
    following_ = run(book == nullptr ? nullptr : book->in_force(iteration + 1));
  }
  /// This iteration is run by no assignment after all.
  void leave() noexcept { in_force_ = nullptr; }
  /// The next instruction begins the next iteration.
  bool at_end() const noexcept { return iteration_ < 0 || instructions_.next() < 0; }
  /// Goes on at an instruction.
  InstructionCursor::Taken take(InstructionKind kind, int chunk, int micro_batch) noexcept {
    const InstructionCursor::Taken taken = instructions_.take(kind, chunk, micro_batch);
    const bool has_label = in_force_ != nullptr && in_force_->has_labels && taken.position >= 0;
    label_ = has_label ? in_force_->knobs[static_cast<std::size_t>(taken.position)].label : Label{};
    return taken;
  }

  std::int64_t iteration() const noexcept { return iteration_; }
  /// That holds in this iteration; null: none does.
  const RankAssignment* known() const noexcept { return known_; }
  /// By which training runs in it; null: by none.
  const RankAssignment* in_force() const noexcept { return in_force_; }
  std::uint64_t version() const noexcept { return in_force_ == nullptr ? 0 : in_force_->version; }
  /// Of the instruction that was taken last.
  const Label& label() const noexcept { return label_; }

  /// The clock of an entry of the list; `none` without an assignment.
  Megahertz clock_at(int position, Megahertz none) const noexcept {
    return in_force_ == nullptr ? none : clock_of(*in_force_, position);
  }
  Megahertz first_clock(Megahertz none) const noexcept {
    return clock_at(instructions_.first(), none);
  }
  /// Of the instruction after this one, or the first of the next iteration.
  Megahertz next_clock(Megahertz none) const noexcept {
    if (instructions_.next() >= 0) return clock_at(instructions_.next(), none);
    return following_ == nullptr ? none : clock_of(*following_, instructions_.first());
  }

 private:
  static Megahertz clock_of(const RankAssignment& assignment, int position) noexcept {
    const Megahertz clock = assignment.clocks[static_cast<std::size_t>(position)];
    return clock.value == 0 ? WantedClock::kAsItIs : clock;
  }

  InstructionCursor instructions_;
  PublishedAssignments* assignments_;
  std::size_t reader_;
  std::int64_t iteration_ = -1;
  const RankAssignment* known_ = nullptr;  ///< held by `assignments_`, as those that follow
  const RankAssignment* in_force_ = nullptr;
  const RankAssignment* following_ = nullptr;  ///< in the next iteration, as far as is known
  Label label_;
};

}  // namespace harpe::training
