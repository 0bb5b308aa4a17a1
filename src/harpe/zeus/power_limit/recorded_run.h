#pragma once
/// \file
/// A profiling run of Zeus as its monitor logged it: one CSV row a window, `start_time`,
/// `window_name` ending in `_<watts>`, `elapsed_time` (s), `gpu0_energy`, ... (J).

#include <string>
#include <string_view>
#include <vector>

#include "harpe/zeus/power_limit/knob.h"
#include "harpe/zeus/power_limit/selector.h"

namespace harpe {

struct RecordedRun {
  Knob knob;                              ///< the limits that were measured
  std::vector<Measurement> measurements;  ///< one a setting of the knob; joules of all GPUs
  int gpus = 0;
};

/// Rows of windows with other names are left out. Diagnostics: a missing column, a cell that is no
/// number above 0, limits out of order, a limit twice, no window at all.
Result<RecordedRun> parse_recorded_run(std::string_view text, const std::string& file);

}  // namespace harpe
