#pragma once
/// \file
/// File of the measured settings of a job: the JSON of Zeus (`measurements` with a whole
/// `power_limit` in W, `energy` in J and `time` in s, highest first, indented by 4), with optional
/// members that identify the job and the time of measurement. A profile without them is one of
/// Zeus; Zeus can read a profile with them.
///
///   {"measurements": [{"power_limit": 250, "energy": 1900.33, "time": 9.99}, ...],
///    "gpu_model": "NVIDIA A40", "batch_size": 256, "job": "resnet50", "measured_at": 1700000000}
///
/// If the settings are clocks, `clock` (MHz) replaces `power_limit`.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/json.h"
#include "harpe/zeus/power_limit/knob.h"
#include "harpe/zeus/power_limit/selector.h"

namespace harpe::zeus {

/// The job and GPU of a profile. The profile is not valid if one of these members differs.
struct ProfileKey {
  std::string gpu_model;
  int batch_size = 0;
  std::string job;
  friend bool operator==(const ProfileKey&, const ProfileKey&) = default;
};

struct LimitProfile {
  KnobKind kind = KnobKind::kPowerLimit;
  std::vector<Measurement> measurements;
  std::optional<ProfileKey> key;
  std::optional<double> measured_at;  ///< s since 1970
};

/// Fails if the text is not JSON, a member has the wrong type or is out of range, there is no
/// measurement, limits do not descend, or a file has limits and clocks. Other members are ignored.
Result<LimitProfile> parse_limit_profile(std::string_view text, const std::string& file);
/// Reads a profile from a parsed document.
Result<LimitProfile> read_limit_profile(const JsonValue& document, const std::string& file);
/// Returns the text of the file. Limits that are not whole watts are written with decimals, which
/// Zeus can also read.
std::string limit_profile_json(const LimitProfile& profile);

/// Returns the reason why a profile must not be used: another or an unknown GPU model, batch size
/// or job, or an age over `most`. Nullopt if it may be used.
std::optional<std::string> why_stale(const LimitProfile& profile, const ProfileKey& wanted,
                                     double now, Seconds most);

}  // namespace harpe::zeus
