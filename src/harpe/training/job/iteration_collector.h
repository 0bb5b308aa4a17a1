#pragma once
/// \file
/// A collector of the ranks' reports of an iteration, which arrive in any order. It computes the
/// costs of each group: the longest time and the sum of energies of the tensor shards of a stage.
///
/// An iteration is finished when all ranks have reported it, or when a rank has reported the second
/// iteration after it. In synchronous training no rank reports that one before all have finished
/// this one, so a missing report is lost by then. Lost, late and repeated reports do no harm.
///
/// A report whose iteration is far from all others is ignored, unless more than half of the ranks
/// report such iterations: then the collector follows them. Either the reports in between are lost,
/// if the ranks have stated that they were past them, or training was started again elsewhere.
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
  int ranks = 0;              ///< number of ranks that reported
  bool same_version = true;   ///< true if all ran by the same assignments
  bool throttled = false;     ///< true if any was throttled
  std::uint64_t version = 0;  ///< of the assignments
  Megahertz clock{};          ///< lowest reported clock of its shards; 0 if none was reported
  Seconds time{};             ///< of the iteration, longest of the shards
  Joules energy{};            ///< of all shards, waiting included; NaN if one is not known
  Joules energy_error{};      ///< half-width of its 95 % interval
};

struct FinishedIteration {
  std::int64_t iteration = 0;
  std::vector<GroupIteration> groups;  ///< `JobShape::group`
  /// Costs of one instruction of each (pipeline, work item): seconds, longest of the shards;
  /// joules, sum of the shards; half-width of their 95 % interval. NaN if not reported.
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
    bool used = false;   ///< false if repeated, late, or far from all others
    bool moved = false;  ///< true if training has started again, with other iteration numbers
  };
  /// Adds a report. Fails with diagnostics if it has instructions that the stage does not have, or
  /// more of them than its schedule has.
  Result<Added> add(const IterationReport& report);

  /// Returns the iterations that have finished since the last call, oldest first.
  std::vector<FinishedIteration> take_finished() { return std::exchange(finished_, {}); }

  /// Returns the newest iteration of all used reports; -1 if none.
  std::int64_t newest() const { return newest_; }
  /// Returns the newest iteration that any rank is known to have reached; -1 if none. Reports may
  /// be any number of iterations behind.
  std::int64_t reached() const { return reached_; }
  /// Returns the iteration that the rank had reached, as far as is plausible, when it sent this.
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
  /// Iteration that each rank reports, if it is far from all others; else -1. Empty before the
  /// first such report.
  std::vector<std::int64_t> astray_;
  int astray_count_ = 0;
};

}  // namespace harpe::training
