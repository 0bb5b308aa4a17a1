#pragma once
/// \file
/// A search for a better plan that the user lets go on, and can end.

#include <chrono>
#include <optional>
#include <string>

#include "harpe/command/console.h"
#include "harpe/command/interrupt.h"
#include "harpe/frontier/frontier.h"
#include "harpe/plan_cli/plan_job.h"

namespace harpe {

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
  /// What the search came to, one sentence; "" where none was made.
  std::string sentence() const;

 private:
  using Clock = std::chrono::steady_clock;
  bool go_on(const SearchProgress& progress);
  double elapsed() const;

  const PlanJob& job_;
  Console& console_;
  std::optional<InterruptScope> interrupt_;
  std::optional<ProgressBar> bar_;
  Clock::time_point started_;
  double seconds_ = 0;
  std::optional<SearchProgress> first_, last_;
  bool is_interrupted_ = false;
};

}  // namespace harpe
