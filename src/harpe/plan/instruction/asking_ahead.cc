#include "harpe/plan/instruction/asking_ahead.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace harpe::plan {
namespace {

/// Rounds up to whole nanoseconds, ignoring errors of arithmetic: 0.01 - 0.007 is 0.003.
Seconds in_nanoseconds(Seconds time) {
  constexpr double kRounding = 1e-3;
  return {std::ceil(time.value * 1e9 - kRounding) / 1e9};
}

}  // namespace

LatencyByClock remaining_latency(const LatencyByClock& latency, std::span<const Megahertz> clocks,
                                 Seconds shortest) {
  const AskingAhead asking(latency);
  const Seconds earliest = std::max(shortest - AskingAhead::kSeenWithin, Seconds{0});
  const auto remaining = [&](Megahertz clock) {
    return in_nanoseconds(latency.to(clock) - std::min(asking.time(clock), earliest));
  };
  if (!latency.is_table()) return remaining(Megahertz{0});
  // An entry for each clock, not for each row: between two rows the longer latency and the shorter
  // least latency apply, so that more can remain than for either row.
  std::vector<Megahertz> rising(clocks.begin(), clocks.end());
  std::ranges::sort(rising);
  const auto repeated = std::ranges::unique(rising);
  rising.erase(repeated.begin(), repeated.end());
  std::vector<LatencyByClock::Entry> entries;
  for (const Megahertz clock : rising)
    entries.push_back({.clock = clock, .latency = remaining(clock)});
  return LatencyByClock(std::move(entries));
}

}  // namespace harpe::plan
