#include "harpe/report/trace_excerpt.h"

#include <algorithm>
#include <limits>

namespace harpe::report {

TraceExcerpt::TraceExcerpt(const Plan& plan, std::size_t most) {
  std::vector<Seconds> starts;
  for (const auto& list : plan.instructions) {
    for (const PlannedInstruction& instruction : list) starts.push_back(instruction.start);
  }
  if (starts.size() <= most) return;
  std::ranges::sort(starts);
  const std::size_t part = std::max<std::size_t>(1, most / 3);
  const auto halfway = static_cast<std::size_t>(
      std::ranges::lower_bound(starts, plan.iteration_time / 2.0) - starts.begin());
  const auto end_at = [&](std::size_t index) {
    return index < starts.size() ? starts[index] : Seconds{std::numeric_limits<double>::infinity()};
  };
  const auto add = [&](std::size_t first) {
    const Interval window{starts[first], end_at(first + part)};
    // Windows that meet are one.
    if (!windows_.empty() && window.start <= windows_.back().end) {
      windows_.back().end = std::max(windows_.back().end, window.end);
    } else {
      windows_.push_back(window);
    }
  };
  add(0);
  add(std::min(halfway - std::min(halfway, part / 2), starts.size() - part));
  add(starts.size() - part);
}

bool TraceExcerpt::has(const PlannedInstruction& instruction) const {
  return is_whole() || std::ranges::any_of(windows_, [&](const Interval& window) {
           return instruction.start >= window.start && instruction.start < window.end;
         });
}

}  // namespace harpe::report
