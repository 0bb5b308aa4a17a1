#pragma once
/// \file
/// What was measured of a job's settings, in a file: Zeus's JSON as it is (`measurements` of whole
/// `power_limit` in W, `energy` in J, `time` in s, highest first, indented by 4), with optional
/// members that say what was measured and when. A profile without them reads as one of Zeus; Zeus
/// reads one with them.
///
///   {"measurements": [{"power_limit": 250, "energy": 1900.33, "time": 9.99}, ...],
///    "gpu_model": "NVIDIA A40", "batch_size": 256, "job": "resnet50", "measured_at": 1700000000}
///
/// Where the settings are clocks, `clock` (MHz) stands for `power_limit`.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/json.h"
#include "harpe/zeus/power_limit/knob.h"
#include "harpe/zeus/power_limit/selector.h"

namespace harpe::zeus {

/// What a profile holds for, and no longer when one of them changes.
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

/// Diagnostics: no JSON, a member of the wrong type or out of range, no measurement, limits that do
/// not descend, limits beside clocks. Other members are left out.
Result<LimitProfile> parse_limit_profile(std::string_view text, const std::string& file);
/// The same of a document that is parsed already.
Result<LimitProfile> read_limit_profile(const JsonValue& document, const std::string& file);
/// Limits that are no whole watts are written with their decimals, which Zeus reads, too.
std::string limit_profile_json(const LimitProfile& profile);

/// Why a profile must not be used again: another GPU model, batch size or job, an unknown one, or
/// an age over `most` (s). Nothing where it may be.
std::optional<std::string> why_stale(const LimitProfile& profile, const ProfileKey& wanted,
                                     double now, Seconds most);

}  // namespace harpe::zeus
