#pragma once
/// \file
/// The online optimizer on a recorded run, and time and energy of any sequence of settings.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "harpe/lab/replay/limit_replay.h"
#include "harpe/zeus/power_limit/online_optimizer.h"

namespace harpe::lab {

/// Time and energy of some steps of a run.
struct RunTotals {
  Seconds time{};
  Joules energy{};

  void add(const RecordedRun& run, std::size_t setting, std::int64_t steps) {
    const double windows = static_cast<double>(steps) / kRecordedSteps;
    time += run.measurements[setting].time * windows;
    energy += run.measurements[setting].energy * windows;
  }
};

/// Returns the totals of `steps` steps with these set calls. The last one stays in force.
inline RunTotals totals_of(const RecordedRun& run, const std::vector<SetCall>& set_calls,
                           std::int64_t steps) {
  RunTotals totals;
  for (std::size_t i = 0; i < set_calls.size(); ++i) {
    const std::int64_t first = std::max<std::int64_t>(set_calls[i].step, 1);
    const std::int64_t next =
        i + 1 < set_calls.size() ? std::max<std::int64_t>(set_calls[i + 1].step, 1) : steps + 1;
    const std::int64_t count = std::min(next, steps + 1) - first;
    if (count > 0) totals.add(run, set_calls[i].setting, count);
  }
  return totals;
}

struct OnlineReplay {
  RunTotals totals;
  std::size_t last = 0;  ///< the last setting
  int switches = 0;
  double worst_slowdown = 0;  ///< largest of any prefix, against the highest setting; fraction
};
inline Result<OnlineReplay> replay_online(const RecordedRun& run,
                                          const zeus::OnlineOptions& options, std::int64_t steps) {
  zeus::OnlineOptimizer optimizer = HARPE_TRY(zeus::OnlineOptimizer::make(run.knob, options));
  OnlineReplay replay;
  RunTotals highest;
  highest.add(run, 0, 1);
  std::optional<zeus::Measurement> last;
  for (std::int64_t step = 1; step <= steps; ++step) {
    replay.last = optimizer.next(last);
    RunTotals one;
    one.add(run, replay.last, 1);
    last = zeus::Measurement{run.knob[replay.last], one.time, one.energy};
    replay.totals.time += one.time;
    replay.totals.energy += one.energy;
    const double slowdown = replay.totals.time / (highest.time * static_cast<double>(step)) - 1;
    replay.worst_slowdown = std::max(replay.worst_slowdown, slowdown);
  }
  replay.switches = optimizer.switches();
  return replay;
}

}  // namespace harpe::lab
