#include "harpe/command/lab_cli/pace_choices.h"

#include "harpe/base/json_fields.h"
#include "harpe/plan/policy/plan_table.h"
#include "harpe/zeus/power_limit/limit_profile.h"

namespace harpe::command {
namespace {

carbon::PieceCost read_point(const JsonValue& object, Diagnostics& diagnostics) {
  Fields point(object, "a point of the frontier", diagnostics);
  return {.time = {needed(point, "iteration_time_s",
                          point.number("iteration_time_s", 1e-9, kLongestTime))},
          .energy = {needed(point, "iteration_energy_j",
                            point.number("iteration_energy_j", 1e-9, kMostEnergy))}};
}

Result<PaceChoices> of_frontier(const JsonValue& document, const std::string& file) {
  PaceChoices choices{.what = "frontier"};
  HARPE_TRY(read_object(document, "a frontier", file, Unknown::kIgnored,
                        [&](Fields& fields, Diagnostics& diagnostics) {
                          for (const JsonValue* object : fields.objects("points")) {
                            choices.pieces.push_back(read_point(*object, diagnostics));
                          }
                          if (choices.pieces.empty()) {
                            fields.error("points", "expected at least one point");
                          }
                          // Absent in files of earlier versions.
                          for (const JsonValue* object : fields.objects("one_setting")) {
                            choices.one_setting.push_back(read_point(*object, diagnostics));
                          }
                          if (const JsonValue* object = fields.object("all_max")) {
                            choices.all_max = read_point(*object, diagnostics);
                          }
                        }));
  return choices;
}

Result<PaceChoices> of_table(const JsonValue& document, const std::string& file) {
  const plan::PlanTable table = HARPE_TRY(plan::PlanTable::read(document, file));
  PaceChoices choices{.what = "plan table"};
  for (const plan::TablePlan& plan : table.plans())
    choices.pieces.push_back({plan.time, plan.energy});
  choices.all_max = {table.all_max().time, table.all_max().energy};
  return choices;
}

Result<PaceChoices> of_profile(const JsonValue& document, const std::string& file) {
  const zeus::LimitProfile profile = HARPE_TRY(zeus::read_limit_profile(document, file));
  PaceChoices choices{.what = "profile of power limits"};
  for (const zeus::Measurement& one : profile.measurements) {
    choices.pieces.push_back({one.time, one.energy});
  }
  // Limits descend: the first is the highest.
  choices.all_max = choices.pieces.front();
  return choices;
}

}  // namespace

Result<PaceChoices> parse_pace_choices(std::string_view text, const std::string& file) {
  const JsonValue document = HARPE_TRY(parse_json(text, file));
  if (document.find("measurements") != nullptr) return of_profile(document, file);
  const JsonValue* format = document.find("format");
  const bool is_named = format != nullptr && format->type == JsonValue::Type::kString;
  if (is_named && format->string == "harpe.frontier/1") return of_frontier(document, file);
  if (is_named && format->string.starts_with("harpe.plan_table/")) return of_table(document, file);
  return Error::invalid(
      file +
      ": expected a frontier (harpe.frontier/1, which harpe plan --out writes), a "
      "plan table, or a profile of power limits");
}

}  // namespace harpe::command
