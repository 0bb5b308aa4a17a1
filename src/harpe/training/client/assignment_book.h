#pragma once
/// \file
/// The clocks that a rank was assigned, and which of them hold in which iteration.
///
/// Assignments name the iteration from which they hold. In iteration i the newest hold among all
/// with `from_iteration <= i`, whatever the order in which they arrived: so all ranks change at the
/// same iteration, and a response that was overtaken changes nothing. Newest is what has the
/// highest epoch, and of one epoch the highest version: what a server says that had the job before
/// is refused. All assignments of a book are of one life of the job.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/instruction/knobs.h"
#include "harpe/training/client/latest_snapshot.h"
#include "harpe/training/wire/rank_events.h"

namespace harpe::training {

/// An assignment as its rank can run by it. A memory clock and a power limit take a GPU long to
/// change, so they are for all instructions.
struct RankAssignment : StageAssignment {
  Knobs steady = {};         ///< memory clock and power limit throughout
  bool has_labels = false;   ///< training has to do what they say
  std::string refusal = {};  ///< why it cannot be run by; empty: it can
};

/// Not thread-safe. Copies are snapshots. At most `kMostAssignments` are kept.
class AssignmentBook {
 public:
  /// \param instructions  length of the stage's list, fixed-time ones included
  explicit AssignmentBook(std::size_t instructions) : instructions_(instructions) {}

  /// Takes assignments in any order, the same again too; those of an older epoch than one that was
  /// heard of are left out. Refuses, unchanged, those whose clocks are neither one for all nor one
  /// an instruction, or negative, or that have other knobs than clocks.
  Status add(const StageAssignment& assignment);

  /// Forgets what cannot hold in this iteration or a later one.
  void forget_before(std::int64_t iteration);
  void clear() { assignments_.clear(); }

  /// Those that hold in an iteration; null: none do. Valid until the book is changed.
  const RankAssignment* in_force(std::int64_t iteration) const noexcept;
  /// Those of a version, null where they are not here.
  const RankAssignment* of_version(std::uint64_t version) const noexcept;
  /// The newest version heard of; 0: none.
  std::uint64_t newest() const noexcept {
    return assignments_.empty() ? 0 : assignments_.back().version;
  }

  std::size_t size() const { return assignments_.size(); }
  std::size_t instructions() const { return instructions_; }

  static constexpr std::size_t kMostAssignments = 16;

 private:
  std::size_t instructions_;
  std::vector<RankAssignment>
      assignments_;  ///< by rising epoch and version; clocks one an instruction
};

/// Assignments as training looks them up, where it makes calls and where its device gets to them:
/// the newest snapshot.
using PublishedAssignments = LatestSnapshot<const AssignmentBook, 2>;

}  // namespace harpe::training
