#pragma once
/// \file
/// Replay of the optimizers over a recorded run: each window takes the recorded time and energy of
/// its setting, in proportion to its steps. A run has one mean per setting and no scatter of steps,
/// so an early end of a window cannot be replayed: the length of Harpe's windows is given.
///
/// Steps count from 1; 0 is before the first step. A setting at the end of an epoch has the number
/// of the step that ended.

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

/// A profiling run of Zeus in the log of its monitor: one CSV row per window, with `start_time`,
/// `window_name` ending in `_<watts>`, `elapsed_time` (s), `gpu0_energy`, ... (J).
struct RecordedRun {
  zeus::Knob knob;                              ///< the measured limits
  std::vector<zeus::Measurement> measurements;  ///< one per setting of the knob; joules of all GPUs
  int gpus = 0;
};

/// Reads a run. Ignores windows with other names. Fails if a column is missing, a cell is not a
/// number above 0, limits are out of order, a limit occurs twice, or there is no window.
Result<RecordedRun> parse_recorded_run(std::string_view text, const std::string& file);

/// Number of steps of a recorded window: Zeus's profile_steps.
inline constexpr int kRecordedSteps = 40;

struct SetCall {
  std::int64_t step = 0;
  std::size_t setting = 0;  ///< position in the run's knob
  friend bool operator==(const SetCall&, const SetCall&) = default;
};

struct ProfilingReplay {
  std::optional<std::size_t> choice;
  std::vector<SetCall> set_calls;
  std::vector<std::size_t> order;  ///< settings in the order of measurement
  std::int64_t done_step = 0;
};

/// \param steps_per_epoch  0: epochs never end
Result<ProfilingReplay> replay_zeus(const RecordedRun& run, const ZeusOptions& options,
                                    int steps_per_epoch);
/// \param window_steps  of each window, instead of the options' minimum and maximum
Result<ProfilingReplay> replay_profiler(const RecordedRun& run, zeus::ProfilerOptions options,
                                        int window_steps, int steps_per_epoch);

}  // namespace harpe::lab
