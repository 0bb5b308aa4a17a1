#include "harpe/zeus/power_limit/limit_profile.h"

#include <cmath>
#include <limits>

#include "harpe/base/json_fields.h"
#include "harpe/base/json_text.h"
#include "harpe/base/text.h"

namespace harpe::zeus {
namespace {

constexpr double kLeast = std::numeric_limits<double>::min();  // above 0
constexpr double kMostSetting = 1e6;                           // W or MHz
constexpr double kLatestTime = 1e12;                           // s since 1970
constexpr int kMostBatchSize = 1'000'000'000;

Measurement read_measurement(const JsonValue& object, const LimitProfile& profile, bool first,
                             KnobKind& kind, Diagnostics& diagnostics) {
  Fields fields(object, "a measurement", diagnostics);
  const std::optional<double> limit = fields.number("power_limit", kLeast, kMostSetting);
  const std::optional<double> clock = fields.number("clock", kLeast, kMostSetting);
  if (limit.has_value() == clock.has_value()) {
    fields.error("power_limit", "expected either power_limit (W) or clock (MHz)");
  }
  const KnobKind own = clock ? KnobKind::kGraphicsClock : KnobKind::kPowerLimit;
  if (first) kind = own;
  if (kind != own) fields.error("clock", "expected either power limits or clocks, found both");
  Measurement one{
      .setting = limit.value_or(clock.value_or(0)),
      .time = {needed(fields, "time", fields.number("time", kLeast, kLongestTime))},
      .energy = {needed(fields, "energy", fields.number("energy", kLeast, kMostEnergy))}};
  if (!first && one.setting >= profile.measurements.back().setting) {
    fields.error(clock ? "clock" : "power_limit", "settings must descend");
  }
  return one;
}

void read_key(Fields& fields, LimitProfile& profile) {
  if (fields.any("gpu_model") == nullptr && fields.any("batch_size") == nullptr &&
      fields.any("job") == nullptr) {
    return;
  }
  ProfileKey key;
  key.gpu_model = short_text(fields, "gpu_model");
  key.batch_size = static_cast<int>(
      needed(fields, "batch_size", fields.integer("batch_size", 1, kMostBatchSize)));
  key.job = short_text(fields, "job");
  profile.key = std::move(key);
}

}  // namespace

Result<LimitProfile> parse_limit_profile(std::string_view text, const std::string& file) {
  return read_limit_profile(HARPE_TRY(parse_json(text, file)), file);
}

Result<LimitProfile> read_limit_profile(const JsonValue& document, const std::string& file) {
  LimitProfile profile;
  HARPE_TRY(read_object(document, "a profile", file, Unknown::kIgnored,
                        [&](Fields& fields, Diagnostics& diagnostics) {
                          for (const JsonValue* object : fields.objects("measurements")) {
                            profile.measurements.push_back(
                                read_measurement(*object, profile, profile.measurements.empty(),
                                                 profile.kind, diagnostics));
                          }
                          if (profile.measurements.empty()) {
                            fields.error("measurements", "expected at least one measurement");
                          }
                          read_key(fields, profile);
                          profile.measured_at = fields.number("measured_at", 0, kLatestTime);
                        }));
  return profile;
}

std::string limit_profile_json(const LimitProfile& profile) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  const char* name = profile.kind == KnobKind::kPowerLimit ? "power_limit" : "clock";
  for (const Measurement& one : profile.measurements) {
    nlohmann::ordered_json setting = one.setting;
    if (one.setting == std::floor(one.setting)) setting = static_cast<std::int64_t>(one.setting);
    list.push_back(
        {{name, std::move(setting)}, {"energy", one.energy.value}, {"time", one.time.value}});
  }
  nlohmann::ordered_json document = {{"measurements", std::move(list)}};
  if (profile.key) {
    document["gpu_model"] = profile.key->gpu_model;
    document["batch_size"] = profile.key->batch_size;
    document["job"] = profile.key->job;
  }
  if (profile.measured_at) document["measured_at"] = *profile.measured_at;
  return json_lines(document, 4) + "\n";
}

std::optional<std::string> why_stale(const LimitProfile& profile, const ProfileKey& wanted,
                                     double now, Seconds most) {
  if (!profile.key || !profile.measured_at) {
    return "it does not state its GPU, batch size, job and time of measurement";
  }
  const ProfileKey& key = *profile.key;
  if (key.gpu_model != wanted.gpu_model) {
    return "it is for GPU " + in_quotes(key.gpu_model) + ", not " + in_quotes(wanted.gpu_model);
  }
  if (key.batch_size != wanted.batch_size) {
    return "it is for batch size " + std::to_string(key.batch_size) + ", not " +
           std::to_string(wanted.batch_size);
  }
  if (key.job != wanted.job) {
    return "it is for job " + in_quotes(key.job) + ", not " + in_quotes(wanted.job);
  }
  const double age = now - *profile.measured_at;
  if (!(age <= most.value)) {
    return "it is " + shortest(age / 86400, 1) + " days old, more than " +
           shortest(most.value / 86400, 1);
  }
  // Otherwise a profile would never expire if the clock was set back.
  if (age < 0) return "its time of measurement is in the future";
  return std::nullopt;
}

}  // namespace harpe::zeus
