#include "harpe/plan/objective/objective.h"

#include <algorithm>
#include <array>
#include <vector>

#include "harpe/base/check.h"
#include "harpe/base/fields.h"
#include "harpe/base/json.h"
#include "harpe/base/json_fields.h"
#include "harpe/base/json_text.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"

namespace harpe {
namespace {

/// The JSON member of a kind with a value, and the range of the value.
struct Form {
  Objective::Kind kind;
  const char* member;
  double lowest, highest;
};
constexpr double kMost = 1e6;  // s, and for fractions and factors
constexpr std::array<Form, 5> kForms = {{
    {Objective::Kind::kSlowdown, "slowdown", 0, kMost},
    {Objective::Kind::kDeadline, "deadline_s", 1e-6, kMost},
    {Objective::Kind::kStragglerTime, "straggler_s", 1e-6, kMost},
    {Objective::Kind::kStragglerFactor, "straggler_factor", 1e-6, kMost},
    {Objective::Kind::kPowerCap, "power_cap_w", 1e-3, 1e12},
}};
constexpr const char* kLeastEnergy = "least_energy";

constexpr std::array<ObjectiveOption, 5> kOptions = {{
    {"slowdown", "PERCENT",
     "Maximum slowdown against the fastest possible iteration: 5% or 5 (default for plans: 0)",
     [](std::string_view text) -> Result<Objective> {
       const double percent = HARPE_TRY(parse_percent(text));
       return Objective{Objective::Kind::kSlowdown, percent / 100};
     }},
    {"deadline", "SECONDS", "Maximum iteration time, such as 1.5s",
     [](std::string_view text) -> Result<Objective> {
       const Seconds time = HARPE_TRY(parse_seconds(text));
       return Objective{Objective::Kind::kDeadline, time.value};
     }},
    {"straggler", "SECONDS|FACTORx",
     "Iteration time of a slower pipeline for which the others wait, or a multiple of the "
     "iteration time at all-max, such as 1.2x",
     [](std::string_view text) -> Result<Objective> {
       const TimeOrFactor wait = HARPE_TRY(parse_time_or_factor(text));
       return wait.time ? Objective{Objective::Kind::kStragglerTime, wait.time->value}
                        : Objective{Objective::Kind::kStragglerFactor, *wait.factor};
     }},
    {"power-cap", "WATTS",
     "Fastest iteration within this average power, such as 40kW: power of the pipeline in a plan, "
     "or of all pipelines in a job",
     [](std::string_view text) -> Result<Objective> {
       const Watts power = HARPE_TRY(parse_watts(text));
       return Objective{Objective::Kind::kPowerCap, power.value};
     }},
    {"least-energy", "", "Least energy, at any iteration time",
     [](std::string_view) -> Result<Objective> {
       return Objective{Objective::Kind::kLeastEnergy};
     }},
}};

const Form* form_of(Objective::Kind kind) {
  const auto found = std::ranges::find(kForms, kind, &Form::kind);
  return found == kForms.end() ? nullptr : &*found;
}

std::string members() {
  std::string list;
  for (const Form& form : kForms) list += "\"" + std::string(form.member) + "\", ";
  return list + "\"" + kLeastEnergy + "\": true";
}

}  // namespace

std::optional<Seconds> time_of(const Objective& objective, const ReferenceTimes& reference) {
  switch (objective.kind) {
    case Objective::Kind::kSlowdown:
      return reference.fastest * (1 + objective.value);
    case Objective::Kind::kStragglerFactor:
      return reference.all_max * objective.value;
    case Objective::Kind::kDeadline:
    case Objective::Kind::kStragglerTime:
      return Seconds{objective.value};
    case Objective::Kind::kPowerCap:
    case Objective::Kind::kLeastEnergy:
      break;
  }
  return {};
}

bool is_met(const Objective& objective, const ReferenceTimes& reference, Seconds time,
            Joules energy, double tolerance) {
  const double most = 1 + tolerance;
  switch (objective.kind) {
    case Objective::Kind::kPowerCap:
      return energy / time <= Watts{objective.value} * most;
    case Objective::Kind::kLeastEnergy:
      return true;
    case Objective::Kind::kSlowdown:
    case Objective::Kind::kDeadline:
    case Objective::Kind::kStragglerTime:
    case Objective::Kind::kStragglerFactor:
      break;
  }
  return time <= *time_of(objective, reference) * most;
}

std::string text_of(const Objective& objective) {
  const std::string value = shortest(objective.value);
  switch (objective.kind) {
    case Objective::Kind::kSlowdown:
      return objective.value == 0 ? "no slowdown"
                                  : "slowdown " + shortest(objective.value * 100, 4) + " %";
    case Objective::Kind::kDeadline:
      return "deadline " + value + " s";
    case Objective::Kind::kStragglerTime:
      return "straggler " + value + " s";
    case Objective::Kind::kStragglerFactor:
      return "straggler " + value + " x all-max";
    case Objective::Kind::kPowerCap:
      return "power cap " + value + " W";
    case Objective::Kind::kLeastEnergy:
      break;
  }
  return "least energy";
}

std::string objective_json(const Objective& objective) {
  if (objective.kind == Objective::Kind::kLeastEnergy) return json_line({{kLeastEnergy, true}});
  const Form* form = form_of(objective.kind);
  HARPE_CHECK(form != nullptr, "each kind of objective with a value has its member in JSON");
  return json_line({{form->member, objective.value}});
}

Objective read_objective(Fields& fields) {
  // A member that is present counts even if its value is refused.
  std::vector<Objective> given;
  for (const Form& form : kForms) {
    if (fields.any(form.member) == nullptr) continue;
    given.push_back({form.kind, fields.number(form.member, form.lowest, form.highest).value_or(0)});
  }
  if (fields.any(kLeastEnergy) != nullptr && fields.boolean(kLeastEnergy).value_or(true))
    given.push_back({Objective::Kind::kLeastEnergy, 0});
  if (given.size() == 1) return given.front();
  fields.error("slowdown", "expected exactly one of " + members());
  return {};
}

Result<Objective> parse_objective(std::string_view text) {
  return read_document<Objective>(text, "the objective",
                                  [](Fields& fields, Diagnostics&, Objective& objective) {
                                    objective = read_objective(fields);
                                  });
}

bool is_valid(const Objective& objective) {
  const Form* form = form_of(objective.kind);
  return form == nullptr || (objective.value >= form->lowest && objective.value <= form->highest);
}

std::span<const ObjectiveOption> objective_options() {
  return kOptions;
}

std::string option_text(const Objective& objective) {
  const std::string value = shortest(objective.value);
  switch (objective.kind) {
    case Objective::Kind::kSlowdown:
      return "--slowdown " + shortest(100 * objective.value) + "%";
    case Objective::Kind::kDeadline:
      return "--deadline " + value + "s";
    case Objective::Kind::kStragglerTime:
      return "--straggler " + value + "s";
    case Objective::Kind::kStragglerFactor:
      return "--straggler " + value + "x";
    case Objective::Kind::kPowerCap:
      return "--power-cap " + value + "W";
    case Objective::Kind::kLeastEnergy:
      break;
  }
  return "--least-energy";
}

}  // namespace harpe
