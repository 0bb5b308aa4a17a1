#pragma once
/// \file
/// What a rank knows of pauses: which iteration it is not to begin, and when it goes on.
///
/// In iteration i holds the newest assignment with `from_iteration <= i` (assignment_book.h). Where
/// that asks for a pause that this rank has not followed yet, training pauses before i. So all
/// ranks pause before the same iteration, as long as they have the same assignments when they get
/// there, whatever the order in which these arrived. A rank that waits goes on once what holds
/// there, or the newest assignment of all, asks for no pause or for another one. A pause that a
/// rank hears of when it has already looked there is too late, and not followed: all ranks may be
/// past it.
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
  /// In any order, the same again too; what is of an older epoch than the newest is left out.
  void take(const StageAssignment& assignment);
  /// Of another life of the job nothing holds.
  void clear() { *this = {}; }

  /// That training, which is there, is to follow before this iteration; none: it goes on.
  std::optional<PauseRequest> before(std::int64_t iteration);
  /// It is followed: not asked for again.
  void follow(const PauseRequest& pause) { followed_ = std::max(followed_, pause.number); }
  /// Whether training that waits before this iteration is to go on waiting.
  bool lasts(const PauseRequest& pause, std::int64_t iteration) const;
  /// The same pause by what is known now: its end may be another.
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

  std::vector<Entry> entries_;  ///< by rising age; only those that hold in some iteration
  std::int64_t looked_ = -1;    ///< the last iteration that was asked about
  std::uint64_t followed_ = 0;  ///< the newest number that was followed, or came too late
};

}  // namespace harpe::training
