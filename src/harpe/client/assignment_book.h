#pragma once
/// \file
/// The clocks that a rank was told, and which of them hold in which iteration.
///
/// Assignments name the iteration from which they hold. In iteration i the newest hold among all
/// with `from_iteration <= i`, whatever the order in which they arrived: so all ranks change at the
/// same iteration, and an answer that was overtaken changes nothing. Newest is what has the highest
/// epoch, and of one epoch the highest version: what a server says that had the job before is
/// refused. All assignments of a book are of one life of the job.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/wire/rank_events.h"

namespace harpe {

/// Not thread-safe. Copies are snapshots. At most `kMostAssignments` are kept.
class AssignmentBook {
 public:
  /// \param instructions  length of the stage's list, fixed-time ones included
  explicit AssignmentBook(std::size_t instructions) : instructions_(instructions) {}

  /// Takes assignments in any order, the same again too; those of an older epoch than one that was
  /// heard of are left out. Refuses, unchanged, those whose clocks are neither one for all nor one
  /// an instruction, or negative.
  Status add(const StageAssignment& assignment);

  /// Forgets what cannot hold in this iteration or a later one.
  void forget_before(std::int64_t iteration);
  void clear() { assignments_.clear(); }

  /// Those that hold in an iteration; null: none do. Valid until the book is changed.
  const StageAssignment* in_force(std::int64_t iteration) const noexcept;
  /// Those of a version, null where they are not here.
  const StageAssignment* of_version(std::uint64_t version) const noexcept;
  /// The newest version heard of; 0: none.
  std::uint64_t newest() const noexcept {
    return assignments_.empty() ? 0 : assignments_.back().version;
  }

  std::size_t size() const { return assignments_.size(); }
  std::size_t instructions() const { return instructions_; }

  static constexpr std::size_t kMostAssignments = 16;

 private:
  std::size_t instructions_;
  std::vector<StageAssignment>
      assignments_;  ///< by rising epoch and version; clocks one an instruction
};

}  // namespace harpe
