#pragma once
/// \file
/// A power cap of a job that changes over time, from a file.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe::lab {

/// Each cap holds from its time to that of the next one, the last one for good.
struct PowerCapTrace {
  struct Cap {
    Seconds from;
    Watts power;  ///< of all GPUs of the job, on average over an iteration
    friend bool operator==(const Cap&, const Cap&) = default;
  };
  std::vector<Cap> caps = {};  ///< by rising time

  /// Returns the cap at a time; nullopt before the first one.
  std::optional<Watts> at(Seconds time) const;
};

/// Reads CSV with the columns `time_s,watts`. Times rise from row to row. All diagnostics at once,
/// each with its line.
Result<PowerCapTrace> parse_power_cap_trace(std::string_view text, const std::string& file);

}  // namespace harpe::lab
