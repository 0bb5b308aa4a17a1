#include "harpe/command/plan_cli/long_search.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "harpe/base/text.h"
#include "harpe/command/command/quantity_text.h"

namespace harpe {

PlanOptions LongPlanSearch::applied_to(PlanOptions options) {
  if (!job_.searches_on()) return options;
  options.search_windows = std::numeric_limits<std::int64_t>::max();
  if (job_.search_windows) options.search_windows = *job_.search_windows;
  options.go_on = [this](const SearchProgress& progress) { return go_on(progress); };
  return options;
}

double LongPlanSearch::elapsed() const {
  return std::chrono::duration<double>(Clock::now() - started_).count();
}

bool LongPlanSearch::go_on(const SearchProgress& progress) {
  if (!outcome_) {
    outcome_.emplace().gap_before = progress.gap();
    started_ = Clock::now();
    interrupt_.emplace();
    bar_.emplace(console_, "search");
  }
  outcome_->gap = progress.gap();
  outcome_->windows = progress.windows;
  outcome_->seconds = elapsed();
  double done = 0;
  if (job_.search_time > 0_s) done = outcome_->seconds / job_.search_time.value;
  if (job_.search_windows)
    done = std::max(done, static_cast<double>(progress.windows) / *job_.search_windows);
  bar_->update(done, "gap " + fixed(100 * progress.gap(), 3) + " %, Ctrl-C keeps the best");
  outcome_->is_interrupted = interrupt_->interrupted();
  return !outcome_->is_interrupted && done < 1;
}

void LongPlanSearch::end() {
  bar_.reset();
  interrupt_.reset();
}

std::string sentence_of(const SearchOutcome& outcome) {
  std::string text = "the search went on for " + fixed(outcome.seconds, 1) + " s";
  if (outcome.is_interrupted) text += ", until it was interrupted";
  return text + ": gap to the bound at the deadline " + fixed(100 * outcome.gap_before, 3) +
         " -> " + fixed(100 * outcome.gap, 3) + " %; --search-windows " +
         std::to_string(outcome.windows) + " finds the same plan again";
}

}  // namespace harpe
