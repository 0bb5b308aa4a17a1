#pragma once
/// \file
/// A search for a better plan that the user lets go on, and can end.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "harpe/command/command/console.h"
#include "harpe/command/command/interrupt.h"
#include "harpe/command/plan_cli/plan_job.h"
#include "harpe/plan/frontier/frontier.h"

namespace harpe {

/// What such a search came to.
struct SearchOutcome {
  double seconds = 0;
  std::int64_t windows = 0;        ///< with as many the same plan is found again
  double gap_before = 0, gap = 0;  ///< at the deadline, as fractions
  bool is_interrupted = false;
};
/// One sentence.
std::string sentence_of(const SearchOutcome& outcome);

/// Shows how the search for the chosen plan comes on, and ends it when its time is over or Ctrl-C
/// is pressed. Not thread-safe.
class LongPlanSearch {
 public:
  /// Refers to both.
  LongPlanSearch(const PlanJob& job, Console& console) : job_(job), console_(console) {}

  /// `options` with the search that the job asks for, if any; refers to this.
  PlanOptions applied_to(PlanOptions options);
  /// Lets Ctrl-C end the program again.
  void end();
  /// Nothing where none was made.
  const std::optional<SearchOutcome>& outcome() const { return outcome_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool go_on(const SearchProgress& progress);
  double elapsed() const;

  const PlanJob& job_;
  Console& console_;
  std::optional<InterruptScope> interrupt_;
  std::optional<ProgressBar> bar_;
  Clock::time_point started_;
  std::optional<SearchOutcome> outcome_;
};

}  // namespace harpe
