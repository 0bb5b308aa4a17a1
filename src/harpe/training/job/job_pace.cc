// How fast the job is to go, as decided outside of it.

#include <cmath>
#include <string>
#include <utility>

#include "harpe/base/json_fields.h"
#include "harpe/base/text.h"
#include "harpe/training/job/job_state.h"
#include "harpe/training/job/pace_json.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

constexpr double kLatestResume = 1e11;  // s since 1970
constexpr double kLogged = 0.02;        // change of an iteration's time that is worth an event

std::string with_why(const std::string& text, const std::string& why) {
  return why.empty() ? text : text + " (" + why + ")";
}

}  // namespace

/// The objective that plans are chosen by: the job's own, or its pace as a deadline. A power cap is
/// what the machines may draw, so a pace can only be slower.
Objective Job::State::aim() const {
  if (!pace || !pace->iteration_time) return objective;
  const Objective paced{Objective::Kind::kDeadline, pace->iteration_time->value};
  if (objective.kind != Objective::Kind::kPowerCap || !plans) return paced;
  const plan::PlanChoice capped =
      plan::choose_plans(*plans, objective, overhead(), spec.shape.data, {});
  return capped.objective_time + overhead() >= *pace->iteration_time ? objective : paced;
}

/// Changes that hardly show are not worth a line for people.
void Job::State::note_pace(Seconds now) {
  const Seconds time = pace ? pace->iteration_time.value_or(Seconds{0}) : Seconds{0};
  if (std::abs((time - pace_logged).value) <= kLogged * pace_logged.value) return;
  pace_logged = time;
  std::string text = "not paced any more: by its objective again";
  if (time > Seconds{0}) text = "paced: " + shortest(time.value, 4) + " s an iteration";
  add_event(JobEvent::Level::kInfo, now, pace ? with_why(text, pace->why) : text);
}

Status Job::set_pace(const std::optional<Pace>& pace, Seconds now) {
  State& s = *state_;
  s.newest_event = now;
  if (pace) HARPE_TRY(s.check_sets_clocks());
  if (pace && pace->iteration_time) {
    const Objective deadline{Objective::Kind::kDeadline, pace->iteration_time->value};
    if (!is_valid(deadline)) return Error::invalid("the pace's iteration time is out of range");
  }
  if (pace == s.pace) return ok_status();
  if (pace && pace->why.size() > PauseRequest::kLongestWhy)
    return Error::invalid("why the pace is what it is takes too many words");
  const bool resumes_else = s.pace && pace && s.pace->resumes != pace->resumes;
  const bool pauses = pace && pace->pause;
  s.pace = pace;
  s.effects.save = true;
  s.note_pace(now);
  if (s.asked && !pauses) s.withdraw_pause(now);
  s.deploy_choice(now, "");
  if (!s.asked && pauses) {
    s.ask_to_pause(now);
  } else if (s.asked && resumes_else) {
    s.tell_new_end();
  }
  return ok_status();
}

std::string pace_json(const Pace& pace) {
  using Json = nlohmann::ordered_json;
  const auto or_null = [](const std::optional<Seconds>& time) {
    return time ? Json(time->value) : Json(nullptr);
  };
  return json_line(Json{{"iteration_time_s", or_null(pace.iteration_time)},
                        {"pause", pace.pause},
                        {"resumes", or_null(pace.resumes)},
                        {"why", pace.why}});
}

Pace read_pace(Fields& fields) {
  Pace read;
  const auto time_of = [&](const char* name, double least, double most) -> std::optional<Seconds> {
    const JsonValue* value = fields.any(name);
    if (value == nullptr || value->type == JsonValue::Type::kNull) return std::nullopt;
    const auto number = fields.number(name, least, most);
    return number ? std::optional(Seconds{*number}) : std::nullopt;
  };
  read.iteration_time = time_of("iteration_time_s", 1e-9, kLongestTime);
  read.pause = fields.boolean("pause").value_or(false);
  read.resumes = time_of("resumes", 0, kLatestResume);
  read.why = fields.text("why").value_or("");
  return read;
}

Result<std::optional<Pace>> parse_pace(std::string_view text) {
  const Pace pace =
      HARPE_TRY(read_document<Pace>(text, "the pace", [](Fields& fields, Diagnostics&, Pace& read) {
        read = read_pace(fields);
      }));
  return pace.iteration_time || pace.pause ? std::optional(pace) : std::nullopt;
}

const std::optional<Pace>& Job::pace() const {
  return state_->pace;
}

}  // namespace harpe::training
