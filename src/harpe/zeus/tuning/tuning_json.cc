#include "harpe/zeus/tuning/tuning_json.h"

namespace harpe::zeus {
namespace {

using Json = nlohmann::ordered_json;

Json settings_json(const TuningResult& result) {
  Json settings = Json::array();
  for (std::size_t i = 0; i < result.knob.size(); ++i) {
    if (!is_measured(result, i)) continue;
    const StepCost& cost = result.costs[i];
    settings.push_back({{"setting", result.knob[i]},
                        {"steps", result.steps_under[i]},
                        {"steps_measured", cost.steps},
                        {"time_s", cost.time.value},
                        {"energy_j", cost.energy.value},
                        {"error_j", cost.error.value}});
  }
  return settings;
}

Json saving_json(const std::optional<Saving>& saving) {
  if (!saving) return nullptr;
  return {{"saved_j", saving->saved.value},
          {"saved_error_j", saving->error.value},
          {"at_highest_j", saving->at_highest.value}};
}

}  // namespace

std::string selector_name(Selector::Kind kind) {
  if (kind == Selector::Kind::kEnergy) return "energy";
  return kind == Selector::Kind::kTime ? "time" : "cost";
}

bool is_measured(const TuningResult& result, std::size_t setting) {
  return setting < result.costs.size() && result.costs[setting].steps > 0;
}

std::optional<double> slowdown_of(const TuningResult& result) {
  if (result.slowdown) return result.slowdown;
  if (!result.choice || !is_measured(result, 0) || !is_measured(result, *result.choice)) {
    return std::nullopt;
  }
  return result.costs[*result.choice].time / result.costs[0].time - 1;
}

nlohmann::ordered_json tuning_json(const TuningReport& report) {
  const TuningResult& result = report.result;
  const bool is_set = report.why_nothing_was_set.empty();
  const bool is_clock = result.knob.kind() == KnobKind::kGraphicsClock;
  const std::optional<double> slowdown = slowdown_of(result);
  Json json = {
      {"what", selector_name(report.selector.kind)},
      {"eta", report.selector.kind == Selector::Kind::kCost ? Json(report.selector.eta) : Json()},
      {"max_slowdown",
       report.selector.most_slowdown ? Json(*report.selector.most_slowdown - 1) : Json()},
      {"host_power_w",
       report.measures_node ? Json("measured") : Json(report.selector.host_power.value)},
      {"why_nothing_was_set", is_set ? Json() : Json(report.why_nothing_was_set)},
      {"knob", !is_set ? Json() : Json(is_clock ? "clock_mhz" : "power_limit_w")},
      {"steps", result.steps},
      {"epochs", result.epochs},
      {"ignored_lines", report.ignored_lines},
      {"refused_lines", report.refused_lines},
      {"profilings", result.profilings},
      {"from_profile", result.from_profile}};
  json["settings"] = settings_json(result);
  json["choice"] = is_set && result.choice ? Json(result.knob[*result.choice]) : Json();
  json["decided"] = is_set && result.decided;
  json["slowdown"] = is_set && slowdown ? Json(*slowdown) : Json();
  json["saved_j"] = result.saving.saved.value;
  json["saved_error_j"] = result.saving.error.value;
  json["at_highest_j"] = result.saving.at_highest.value;
  json["all_processes"] = saving_json(result.job_saving);
  json["failure"] = result.failure.empty() ? Json() : Json(result.failure);
  json["advice"] = nullptr;
  if (report.advice) {
    json["advice"] = {{"power_limit_w", report.could_be[report.advice->setting]},
                      {"saving", report.advice->saving},
                      {"slowdown", report.advice->slowdown}};
  }
  json["notes"] = report.notes;
  return json;
}

}  // namespace harpe::zeus
