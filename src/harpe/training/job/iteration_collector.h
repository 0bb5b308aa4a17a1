#pragma once
/// \file
/// Gathers the ranks' reports of an iteration, in whatever order they come, to what it took each
/// group: of the tensor shards of a stage the longest time and the sum of energies.
///
/// An iteration is finished when all ranks have reported it, or when one has reported the second
/// after it: in synchronous training no rank reaches that before all have finished this one, so a
/// report that is missing then is lost. Reports that are lost, late or repeated do no harm.
///
/// A report far from all others counts for nothing, unless more than half of the ranks are there:
/// then the collector follows. Either the reports between are lost, where the ranks have said that
/// they are beyond them, or training has been started again elsewhere.
///
/// Not thread-safe. `add` is O(work items of the stage) without allocation, O(ranks) for the first
/// of an iteration.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/schedule/schedule_work.h"
#include "harpe/training/wire/rank_events.h"

namespace harpe::training {

/// One stage of one pipeline in one iteration.
struct GroupIteration {
  int ranks = 0;              ///< that reported
  bool same_version = true;   ///< all by the same assignments
  bool throttled = false;     ///< any of them
  std::uint64_t version = 0;  ///< of the assignments
  Megahertz clock{};          ///< lowest that its shards reported; 0: none did
  Seconds time{};             ///< of the iteration, longest of the shards
  Joules energy{};            ///< of all shards, waiting included; NaN where one is not known
  Joules energy_error{};      ///< half-width of its 95 % interval
};

struct FinishedIteration {
  std::int64_t iteration = 0;
  std::vector<GroupIteration> groups;  ///< `JobShape::group`
  /// Of one instruction of each (pipeline, work item): seconds, longest of the shards; joules, sum
  /// of the shards; half-width of their interval. NaN: not reported.
  std::vector<float> item_time, item_energy, item_error;
  std::size_t items = 0;  ///< of one pipeline

  std::size_t item(int pipeline, std::size_t number) const {
    return static_cast<std::size_t>(pipeline) * items + number;
  }
};

class IterationCollector {
 public:
  IterationCollector(JobShape shape, const plan::ScheduleWork& work);

  struct Added {
    bool used = false;   ///< false: repeated, late, or far from all others
    bool moved = false;  ///< the ranks are at another iteration than before: started again
  };
  /// Diagnostics: instructions that the stage does not have, more of them than its schedule has.
  Result<Added> add(const IterationReport& report);

  /// Iterations that have finished since the last call, oldest first.
  std::vector<FinishedIteration> take_finished() { return std::exchange(finished_, {}); }

  /// The newest that anyone has reported (and that counts); -1: none.
  std::int64_t newest() const { return newest_; }
  /// The newest that any of them was known to have come to, `newest` at least; -1: none. Reports
  /// may be behind that by any number.
  std::int64_t reached() const { return reached_; }
  /// Where a rank was when it sent this, as far as that can be.
  static std::int64_t reached(const IterationReport& report);
  /// Forgets everything, for a new start of training.
  void reset();

 private:
  struct Open {
    FinishedIteration content;
    std::vector<bool> reported;  ///< by rank
    int count = 0;
  };
  Status check(const IterationReport& report) const;
  bool follow(std::size_t rank, std::int64_t iteration);
  Open& open(std::int64_t iteration);
  void put(Open& slot, const IterationReport& report);
  void finish_until(std::int64_t iteration);

  JobShape shape_;
  const plan::ScheduleWork* work_;
  std::vector<Open> open_;  ///< by rising iteration
  std::vector<FinishedIteration> finished_;
  std::int64_t newest_ = -1;
  std::int64_t reached_ = -1;
  std::int64_t last_finished_ = -1;
  /// Iteration that each rank claims to be in, if it is not that of the others; else -1. Empty if
  /// no rank is astray.
  std::vector<std::int64_t> astray_;
  int astray_count_ = 0;
};

}  // namespace harpe::training
