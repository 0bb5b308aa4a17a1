#pragma once
/// \file
/// The assignments of a rank, and the iterations in which they hold.
///
/// An assignment states the iteration from which it holds. In iteration i the newest assignment
/// with `from_iteration <= i` holds, in whatever order they arrived: so all ranks change at the
/// same iteration, and a late response changes nothing. The newest is the one of the highest epoch
/// and, within that epoch, of the highest version: assignments of a former owner of the job are
/// ignored. All assignments of a book are of one life of the job.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/instruction/knobs.h"
#include "harpe/training/client/latest_snapshot.h"
#include "harpe/training/wire/rank_events.h"

namespace harpe::training {

/// An assignment in the form in which a rank runs it. A GPU takes long to change its memory clock
/// and power limit, so these are the same for all instructions.
struct RankAssignment : StageAssignment {
  Knobs steady = {};         ///< memory clock and power limit throughout
  bool has_labels = false;   ///< true if training must follow labels
  std::string refusal = {};  ///< why the rank cannot run by it; empty if it can
};

/// Not thread-safe. Copies are snapshots. At most `kMostAssignments` are kept.
class AssignmentBook {
 public:
  /// \param instructions  length of the stage's list, fixed-time ones included
  explicit AssignmentBook(std::size_t instructions) : instructions_(instructions) {}

  /// Adds an assignment, in any order and repeatedly. One of an older epoch than the newest is
  /// ignored. Fails and changes nothing if the version is 0, the clocks are neither one for all nor
  /// one for each instruction, a clock is negative, or there are not as many knobs as clocks.
  Status add(const StageAssignment& assignment);

  /// Forgets assignments that cannot hold in this iteration or a later one.
  void forget_before(std::int64_t iteration);
  void clear() { assignments_.clear(); }

  /// Returns the assignment in force in an iteration, valid until the book changes; null if none.
  const RankAssignment* in_force(std::int64_t iteration) const noexcept;
  /// Returns the assignment of a version; null if it is not in the book.
  const RankAssignment* of_version(std::uint64_t version) const noexcept;
  /// Returns the newest version in the book; 0 if it is empty.
  std::uint64_t newest() const noexcept {
    return assignments_.empty() ? 0 : assignments_.back().version;
  }

  std::size_t size() const { return assignments_.size(); }
  std::size_t instructions() const { return instructions_; }

  static constexpr std::size_t kMostAssignments = 16;

 private:
  std::size_t instructions_;
  std::vector<RankAssignment> assignments_;  ///< by epoch and version; a clock per instruction
};

/// The newest snapshot of the book, with two readers: training's calls, and the follower of their
/// execution on the device.
using PublishedAssignments = LatestSnapshot<const AssignmentBook, 2>;

}  // namespace harpe::training
