#pragma once
/// \file
/// Which instructions a trace has of a plan with too many: those that begin in the first, a middle
/// and the last part of the iteration, about as many of each. How a pipeline fills, runs and drains
/// is what a reader looks for; what lies between repeats the middle.

#include <cstddef>
#include <vector>

#include "harpe/plan/frontier/plan.h"
#include "harpe/report/drawing.h"

namespace harpe::report {

class TraceExcerpt {
 public:
  /// All instructions where there are at most `most`; else about that many, more where several
  /// begin at once. O(n log n).
  TraceExcerpt(const Plan& plan, std::size_t most);

  bool is_whole() const { return windows_.empty(); }
  bool has(const PlannedInstruction& instruction) const;

 private:
  /// When those that are kept begin, rising: from `start` until before `end`. Empty: always.
  std::vector<Interval> windows_;
};

}  // namespace harpe::report
