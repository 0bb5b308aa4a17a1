// Pauses of training on request.
//
// Before ranks wait, they write a checkpoint in a collective operation, so either all pause before
// an iteration or none does. Each rank decides by the newest assignment that holds in the
// iteration, and no rank waits for the assignments of another. So a pause is requested far ahead of
// the iterations that ranks report: reports show in time if all ranks know the pause. If they do,
// the pause is bound: it takes place at its iteration even if it is withdrawn (`held_pause`),
// because a rank that did not learn of the withdrawal would pause alone. The ranks then resume at
// once. If some ranks do not know the pause, it is moved far enough ahead that ranks learn of the
// move first.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "harpe/base/json_fields.h"
#include "harpe/base/text.h"
#include "harpe/training/job/job_state.h"
#include "harpe/training/job/job_status_json.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

constexpr double kLatestResume = 1e11;  // s since 1970
constexpr double kLogged = 0.02;  // least relative change of the iteration time that is logged

std::string with_why(const std::string& text, const std::string& why) {
  return why.empty() ? text : text + " (" + why + ")";
}

constexpr int kMostMoves = 5;
constexpr int kReportsTake = 2;  // iterations until the reports of all ranks have arrived
constexpr std::int64_t kLargest = 9'007'000'000'000'000;  // iteration, or number of a pause
constexpr double kLatestPause = 1e12;                     // s since 1970
constexpr std::int64_t kNotFollowed = 2;  // iterations beyond the pause that show it is ignored

}  // namespace

const char* name_of(PauseState::Is is) {
  constexpr std::array kNames = {"none", "asked", "paused", "not_followed"};
  return kNames.at(static_cast<std::size_t>(is));
}

void Job::State::ask_to_pause(Seconds now) {
  asked =
      AskedPause{.request = {.number = 0, .until = pace->resumes, .why = pace->why}, .asked = now};
  if (probe() != nullptr) next_probe = collector.newest();  // the probe is repeated
  end_probe();
  add_event(JobEvent::Level::kInfo, now,
            "a pause is requested" + (pace->why.empty() ? "" : " (" + pace->why + ")"));
  if (ended_to_pause()) return note_paused(now);
  if (!redeploy) place_pause();
}

/// Places the pause at an iteration that all ranks will know in time; a placed pause stays there.
void Job::State::place_pause() {
  if (deployments.empty() || collector.newest() < 0) return;
  Deployment copy = deployments.back();
  const bool was_placed = asked->is_placed();
  if (!was_placed) {
    const std::int64_t margin = std::int64_t{lead()} << asked->moves;
    asked->from = std::max(first_to_hear() + margin + kReportsTake, copy.from + 1);
    asked->request.number = ++pauses;
  }
  if (!was_placed || asked->version == 0) {
    asked->version = version + 1;
    asked->knows.assign(static_cast<std::size_t>(spec.shape.ranks()), false);
    asked->known = 0;
    // A former server sent the pause to the ranks, which are about to reach it.
    asked->bound = asked->bound || first_to_hear() >= asked->from;
  }
  put(std::move(copy), asked->from);
}

/// Places the pause again, because training is at another iteration or has other processes than
/// when its ranks were notified.
void Job::State::void_pause() {
  held_pause.reset();
  if (!asked) return;
  const bool is_to_move = asked->is_placed() && !deployments.empty() && !redeploy;
  const Seconds since = asked->asked;
  asked = AskedPause{.request = {.number = 0, .until = pace->resumes, .why = pace->why},
                     .asked = since};
  if (is_to_move) deploy(Deployment(deployments.back()));
}

void Job::State::withdraw_pause(Seconds now) {
  const bool was_at_pause = is_at_pause();
  if (was_at_pause) newest_since = now;
  const AskedPause before = *std::exchange(asked, std::nullopt);
  add_event(JobEvent::Level::kInfo, now, "the request to pause is withdrawn");
  if (before.paused && ranks.all_ended()) {
    heard = std::max(heard, now);  // a restart of training is noticed later
    return;
  }
  if (deployments.empty() || !deployments.back().pause) return;
  Deployment copy = deployments.back();
  const std::int64_t held_from = copy.from;
  if (redeploy) {
    put(std::move(copy), held_from);
    return;
  }
  if (!before.bound && first_to_hear() <= before.from) return put(std::move(copy), next_from());
  held_pause = before;
  put(std::move(copy), std::max(next_from(), before.from + 1));
}

/// Sends the ranks the new end of the pause.
void Job::State::tell_new_end() {
  asked->request.until = pace->resumes;
  if (deployments.empty() || !deployments.back().pause) return;
  Deployment copy = deployments.back();
  const std::int64_t from = copy.from;
  put(std::move(copy), redeploy ? from : std::max(from, asked->from));
}

/// Notes which ranks know the pause and whether they follow it.
void Job::State::follow_pause(const IterationReport& report, Seconds now) {
  if (!asked || asked->given_up || redeploy) return;
  // A former server placed it: new assignments let this server count the ranks that know it.
  const bool is_another_servers = asked->version == 0 && !asked->bound;
  if (!asked->is_placed() || is_another_servers) return place_pause();
  const std::size_t rank = spec.shape.index(report.coordinates);
  const bool will_pause =
      report.known >= asked->version && IterationCollector::reached(report) < asked->from;
  if (!asked->bound && will_pause && !asked->knows[rank]) {
    asked->knows[rank] = true;
    asked->bound = ++asked->known == spec.shape.ranks();
    effects.save = effects.save || asked->bound;
  }
  if (!asked->bound && first_to_hear() >= asked->from) return move_pause(now);
  if (report.iteration < asked->from) return;
  if (!asked->pausing.empty() && asked->pausing[rank]) {
    asked->pausing[rank] = false;
    --asked->waiting;
    asked->paused.reset();
  }
  if (asked->waiting > 0 || report.iteration < asked->from + kNotFollowed) return;
  if (std::exchange(asked->told, true)) return;
  add_event(JobEvent::Level::kInfo, now,
            "training does not pause: it continues with its assigned clocks");
}

/// Moves the pause, because not all ranks know it and they will soon reach it.
void Job::State::move_pause(Seconds now) {
  asked->from = -1;
  asked->given_up = ++asked->moves > kMostMoves;
  put(Deployment(deployments.back()), next_from());
  if (!asked->given_up) return place_pause();
  add_event(JobEvent::Level::kWarning, now,
            "the pause is cancelled: some ranks would learn of it too late");
}

/// Notes whether a rank waits.
void Job::State::note_pausing(const RankRegistration& registration, Seconds now) {
  if (!asked || !asked->is_placed()) return;
  const bool waits = registration.pausing == asked->request.number;
  const std::size_t rank = spec.shape.index(registration.coordinates);
  asked->pausing.resize(static_cast<std::size_t>(spec.shape.ranks()), false);
  if (asked->pausing[rank] == waits) return;
  asked->pausing[rank] = waits;
  asked->waiting += waits ? 1 : -1;
  if (asked->waiting == spec.shape.ranks()) return note_paused(now);
  asked->paused.reset();
}

void Job::State::note_paused(Seconds now) {
  if (asked->paused) return;
  asked->paused = now;
  effects.save = true;
  add_event(JobEvent::Level::kInfo, now,
            ranks.all_ended()
                ? "all ranks have ended for the pause: the job continues when training does"
                : "all " + std::to_string(spec.shape.ranks()) + " ranks pause");
}

PauseState Job::pause() const {
  return state_->pause_state();
}

PauseState Job::State::pause_state() const {
  if (!asked) return {};
  PauseState state{.is = PauseState::Is::kAsked,
                   .from = asked->from,
                   .waiting = asked->waiting,
                   .ended = ended_to_pause(),
                   .since = asked->asked};
  if (state.ended || state.waiting > 0) {
    state.is = PauseState::Is::kPaused;
    state.since = asked->paused.value_or(asked->asked);
  } else if (asked->given_up || asked->told) {
    state.is = PauseState::Is::kNotFollowed;
  }
  return state;
}

void Job::State::read_asked(Fields& stored) {
  if (!pace || !pace->pause) return;
  asked = AskedPause{.request = {.number = 0, .until = pace->resumes, .why = pace->why}};
  asked->asked.value = stored.number("asked", 0, kLatestPause).value_or(0);
  if (const auto since = stored.number("paused", 0, kLatestPause)) asked->paused = Seconds{*since};
  const auto number = stored.integer("number", 1, kLargest);
  const auto from = stored.integer("from", 0, kLargest);
  if (!number || !from) return;
  asked->request.number = static_cast<std::uint64_t>(*number);
  asked->from = *from;
  asked->bound = stored.boolean("bound").value_or(false);
}

// The pace of the job, which is decided outside of it.

/// Returns the objective that plans are chosen by: the job's own, or its pace as a deadline. A cap
/// is a limit of the machines, so a pace can only be slower.
Objective Job::State::aim() const {
  if (!pace || !pace->iteration_time) return objective;
  const Objective paced{Objective::Kind::kDeadline, pace->iteration_time->value};
  if (!objective.is_cap() || !plans) return paced;
  const plan::PlanChoice capped =
      plan::choose_plans(*plans, objective, overhead(), spec.shape.data, {});
  return capped.objective_time + overhead() >= *pace->iteration_time ? objective : paced;
}

/// Logs the pace unless the change is small.
void Job::State::note_pace(Seconds now) {
  const Seconds time = pace ? pace->iteration_time.value_or(Seconds{0}) : Seconds{0};
  if (std::abs((time - pace_logged).value) <= kLogged * pace_logged.value) return;
  pace_logged = time;
  std::string text = "the pace is removed: the objective applies again";
  if (time > Seconds{0}) text = "the pace is " + shortest(time.value, 4) + " s per iteration";
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
    return Error::invalid("the reason of the pace is too long");
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
