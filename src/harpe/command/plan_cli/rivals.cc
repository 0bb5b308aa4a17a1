#include "harpe/command/plan_cli/rivals.h"

#include <algorithm>
#include <utility>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/plan/baseline/modelled_limits.h"

namespace harpe::command {
namespace {

/// Returns the saving against all-max, %.
double saving(const OneSettingPoint& point, const Planned& planned) {
  return 100 * (1 - point.iteration_energy / planned.all_max.iteration_energy);
}
/// Returns the slowdown against the fastest possible iteration, %.
double slowdown(const OneSettingPoint& point, const Frontier& frontier) {
  return 100 * (point.iteration_time / frontier.min_time() - 1);
}

Json point_json(const std::optional<OneSettingPoint>& point, const Frontier& frontier,
                const Planned& planned) {
  if (!point) return nullptr;
  Json json = {{"iteration_time_s", point->iteration_time.value},
               {"iteration_energy_j", point->iteration_energy.value},
               {"slowdown_percent", slowdown(*point, frontier)},
               {"saving_percent", saving(*point, planned)}};
  if (point->setting.clock != Megahertz{}) json["frequency_mhz"] = point->setting.clock.value;
  if (point->setting.knobs.power_limit != Watts{})
    json["power_limit_w"] = point->setting.knobs.power_limit.value;
  return json;
}

}  // namespace

std::string setting_text(const OneSettingPoint& point) {
  if (point.setting.clock == Megahertz{}) return {};
  const Watts limit = point.setting.knobs.power_limit;
  return limit == Watts{} ? std::to_string(point.setting.clock.value) + " MHz"
                          : shortest(limit.value, 4) + " W";
}

plan::StragglerWait wait_of(const Planned& planned) {
  plan::StragglerWait wait{.until = planned.waits_until};
  const Plan& plan = planned.chosen;
  for (const Watts power : plan.blocking_power) wait.power += power * plan.gpus_per_stage;
  return wait;
}

Result<std::vector<NamedRivals>> rivals_of(const Frontier& frontier, const Planned& planned,
                                           const GpuModel* gpu) {
  const Plan& chosen = planned.chosen;
  const plan::StragglerWait wait = wait_of(planned);
  std::vector<NamedRivals> found;
  const auto add = [&](const std::string& name, const std::string& source,
                       const std::vector<OneSettingPoint>& points, plan::VariedKnob knob) {
    std::vector<OneSettingPoint> curve = plan::one_setting_curve(points, knob, wait);
    const plan::Rivals rivals = plan::rivals_of(
        curve, chosen.iteration_time, chosen.iteration_energy, planned.all_max.iteration_energy);
    if (!curve.empty()) found.push_back({name, source, std::move(curve), rivals});
  };
  const std::vector<OneSettingPoint> settings = frontier.one_setting();
  add("one clock", "profile", settings, plan::VariedKnob::kClock);
  if (gpu != nullptr && plan::one_setting_curve(settings, plan::VariedKnob::kPowerLimit).empty()) {
    add("one power limit", "model of " + std::string(gpu->name),
        HARPE_TRY(plan::modelled_limits(frontier, *gpu)), plan::VariedKnob::kPowerLimit);
  } else {
    add("one power limit", "profile", settings, plan::VariedKnob::kPowerLimit);
  }
  return found;
}

std::string rivals_text(const Frontier& frontier, const Planned& planned) {
  std::string text;
  for (const auto& [name, source, curve, rival] : planned.rivals) {
    std::string line;
    const auto add = [&](const std::optional<OneSettingPoint>& point, const std::string& saves) {
      if (!point) return;
      const double slower = slowdown(*point, frontier);
      const std::string setting = setting_text(*point);
      line += (line.empty() ? " " : ", ") + setting + (setting.empty() ? "" : " ") + "saves " +
              saves + " at " + fixed(slower, 1) + " % slowdown";
    };
    const auto saved = [&](const std::optional<OneSettingPoint>& point) {
      return point ? fixed(std::max(0.0, saving(*point, planned)), 1) + " %" : "";
    };
    add(rival.no_slower, saved(rival.no_slower));
    add(rival.next_cheaper, saved(rival.next_cheaper));
    add(rival.as_cheap, "as much as this plan");
    if (line.empty()) continue;
    const std::string by = source == "profile" ? "" : " (" + source + ")";
    const bool is_setting = !setting_text(curve.front()).empty();  // a rival's curve is not empty
    std::string sentence = name + (is_setting ? " for all GPUs" : "") + by + ":" + line;
    if (sentence.front() == 'o') sentence.front() = 'O';
    text += sentence + '\n';
  }
  return text;
}

Json rivals_json(const Frontier& frontier, const Planned& planned) {
  Json json = Json::object();
  for (const NamedRivals& one : planned.rivals) {
    std::string key = lower(one.name);
    std::ranges::replace(key, ' ', '_');
    json[key] = {{"source", one.source},
                 {"no_slower", point_json(one.rivals.no_slower, frontier, planned)},
                 {"next_cheaper", point_json(one.rivals.next_cheaper, frontier, planned)},
                 {"as_cheap", point_json(one.rivals.as_cheap, frontier, planned)}};
  }
  return json;
}

std::vector<ReportComparison> rival_comparisons(const Planned& planned) {
  constexpr double kApart = 2;  // % of all-max's energy: height of a text line in the chart
  std::vector<ReportComparison> comparisons;
  for (const NamedRivals& one : planned.rivals) {
    for (const auto& point : {one.rivals.no_slower, one.rivals.next_cheaper, one.rivals.as_cheap}) {
      if (!point || saving(*point, planned) < kApart) continue;
      const std::string setting = setting_text(*point);
      // A curve of plans is close to the frontier, where the chart has room for one label.
      const bool is_named =
          !comparisons.empty() && setting.empty() && comparisons.back().name == one.name;
      if (is_named) continue;
      comparisons.push_back({one.name + (setting.empty() ? "" : ", " + setting),
                             point->iteration_time, point->iteration_energy});
    }
  }
  return comparisons;
}

}  // namespace harpe::command
