#pragma once
/// \file
/// The pauses that a rank knows of: the iteration that it must not begin, and the end of the wait.
///
/// In iteration i the newest assignment with `from_iteration <= i` holds (assignment_book.h). If it
/// requests a pause that this rank has not followed yet, training pauses before i. So all ranks
/// pause before the same iteration if they have the same assignments by then, in whatever order
/// these arrived. A waiting rank continues as soon as the assignment for i, or the newest of all
/// assignments, requests no pause or another one. A pause that arrives after the rank has checked
/// that iteration is too late and is not followed: all ranks may be past it.
///
/// Not thread-safe. All calls are O(assignments that may hold), a handful.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "harpe/training/wire/rank_events.h"

namespace harpe::training {

class PauseBook {
 public:
  /// Adds an assignment, in any order and repeatedly. Those of older epochs are ignored.
  void take(const StageAssignment& assignment);
  /// Forgets everything, because the job has another life.
  void clear() { *this = {}; }

  /// Returns the pause that training must follow before this iteration; nullopt if it continues.
  std::optional<PauseRequest> before(std::int64_t iteration);
  /// Notes that the pause is followed, so that `before` does not return it again.
  void follow(const PauseRequest& pause) { followed_ = std::max(followed_, pause.number); }
  /// Returns true if training that waits before this iteration must continue to wait.
  bool lasts(const PauseRequest& pause, std::int64_t iteration) const;
  /// Returns the pause of the newest assignment, whose end may have changed; nullopt if none.
  std::optional<PauseRequest> newest() const {
    return entries_.empty() ? std::nullopt : entries_.back().pause;
  }

 private:
  struct Entry {
    std::uint64_t epoch = 0, version = 0;
    std::int64_t from = 0;
    std::optional<PauseRequest> pause = {};
  };
  const Entry* in_force(std::int64_t iteration) const;
  bool knows(const PauseRequest& pause) const;

  std::vector<Entry> entries_;  ///< oldest first; only entries that hold in some iteration
  std::int64_t looked_ = -1;    ///< the last iteration passed to `before`
  std::uint64_t followed_ = 0;  ///< the newest pause that was followed, or arrived too late
};

}  // namespace harpe::training
