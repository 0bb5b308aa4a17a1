#pragma once
/// \file
/// The optimizers driven over a recorded run: each window takes what was recorded under its
/// setting, in proportion to its steps. A run holds one mean a setting and nothing of how steps
/// scatter, so an early end of a window cannot be shown: the length of Harpe's windows is given.
///
/// Steps count from 1; 0 is before the first. What an epoch's end sets has the step that ended.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/lab/replay/zeus_optimizer.h"
#include "harpe/zeus/power_limit/knob.h"
#include "harpe/zeus/power_limit/selector.h"
#include "harpe/zeus/power_limit/setting_profiler.h"

namespace harpe::lab {

/// A profiling run of Zeus as its monitor logged it: one CSV row for each window, with
/// `start_time`, `window_name` ending in `_<watts>`, `elapsed_time` (s), `gpu0_energy`, ... (J).
struct RecordedRun {
  zeus::Knob knob;                              ///< the limits that were measured
  std::vector<zeus::Measurement> measurements;  ///< one a setting of the knob; joules of all GPUs
  int gpus = 0;
};

/// Reads a run. Ignores windows with other names. Diagnostics: a missing column, a cell that is no
/// number above 0, limits out of order, a limit twice, no window at all.
Result<RecordedRun> parse_recorded_run(std::string_view text, const std::string& file);

/// How many steps a recorded window has: Zeus's profile_steps.
inline constexpr int kRecordedSteps = 40;

struct SetCall {
  std::int64_t step = 0;
  std::size_t setting = 0;  ///< position in the run's knob
  friend bool operator==(const SetCall&, const SetCall&) = default;
};

struct ProfilingReplay {
  std::optional<std::size_t> choice;
  std::vector<SetCall> set_calls;
  std::vector<std::size_t> order;  ///< in which settings were measured
  std::int64_t done_step = 0;
};

/// \param steps_per_epoch  0: epochs never end
Result<ProfilingReplay> replay_zeus(const RecordedRun& run, const ZeusOptions& options,
                                    int steps_per_epoch);
/// \param window_steps  of each window, in place of the options' least and most
Result<ProfilingReplay> replay_profiler(const RecordedRun& run, zeus::ProfilerOptions options,
                                        int window_steps, int steps_per_epoch);

}  // namespace harpe::lab
