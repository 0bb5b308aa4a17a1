#include "harpe/training/carbon_control/carbon_controller.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace harpe::training {
namespace {

constexpr double kIdleShare = 0.2;  // of the power at the fastest pace, if not given
/// Minimum of planned iterations: fewer do not show how much progress varies.
constexpr double kFewestLearned = 5;
/// A decision lasts at most a quarter of the time left, but at least a twentieth of an interval.
constexpr double kShareOfTimeLeft = 0.25, kShareOfInterval = 0.05;
constexpr double kUsualStep = 3600;  // in s, without a forecast

std::string at_text(Seconds time) {
  return carbon::utc_text(carbon::UtcTime{static_cast<std::int64_t>(time.value)});
}

}  // namespace

Seconds JobPaces::fastest() const {
  Seconds shortest = iterations.front().time;
  for (const carbon::PieceCost& one : iterations) shortest = std::min(shortest, one.time);
  return shortest;
}

JobPaces job_paces(const plan::PlanTable& plans, const JobPacesOf& of) {
  JobPaces paces{.iterations = {}, .gpus = of.gpus};
  const double pipelines = of.pipelines;
  for (const plan::TablePlan& plan : plans.plans()) {
    const Seconds pipeline = std::max(plan.time, of.slowest_pipeline);
    const Joules waiting = plans.waiting_power() * (pipeline - plan.time + of.overhead);
    paces.iterations.push_back(
        {.time = pipeline + of.overhead, .energy = (plan.energy + waiting) * pipelines});
  }
  return paces;
}

std::optional<double> CarbonDecision::gain() const {
  if (!grams || !static_grams || !(*static_grams > 0)) return std::nullopt;
  return 1 - *grams / *static_grams;
}

const char* name_of(CarbonDecision::Mode mode) {
  constexpr std::array kNames = {"paced", "paused", "nothing to gain", "static", "fastest", "done"};
  return kNames.at(static_cast<std::size_t>(mode));
}

CarbonController::CarbonController(CarbonTerms terms, ControlState state)
    : terms_(std::move(terms)), state_(std::move(state)) {}

void CarbonController::begin(const ControlledJob& job, const IntensityReading& reading) {
  if (!state_.has_begun()) {
    state_.begun = job.now;
    state_.done_at_begin = job.done;
    if (!terms_.is_open_ended()) {
      state_.deadline =
          job.now + job.paces.fastest() * (left_of(job) * terms_.deadline_factor.value_or(1));
    }
  }
  if (terms_.deadline) {
    state_.deadline = Seconds{static_cast<double>(terms_.deadline->since_1970)};
  }
  // The first forecast determines the kind of intensity for all decisions.
  if (state_.source.empty() && reading.forecast) {
    state_.source = reading.identity.name();
    state_.kind = reading.identity.kind;
  }
}

/// Returns the remaining iterations of a run of known length.
double CarbonController::left_of(const ControlledJob& job) const {
  return std::max(0.0, static_cast<double>(terms_.iterations.value_or(0)) - job.done);
}

/// Records the outcome of the interval that was decided last.
void CarbonController::settle(const ControlledJob& job, const Situation& at) {
  if (!state_.decided) return;
  const DecidedInterval decided = *std::exchange(state_.decided, std::nullopt);
  Seconds duration = job.even - decided.from;
  if (duration.value <= 0) return;  // from another clock
  double done = (job.done - decided.done) * decided.fastest.value;
  if (terms_.is_open_ended()) count(decided, duration, done);
  const double planned = decided.speed * std::max(0.0, (duration - decided.lost).value);
  if (planned >= kFewestLearned * decided.fastest.value) {
    state_.spread.add({.planned = planned, .lost = std::clamp(planned - done, -planned, planned)});
  }
  if (terms_.is_open_ended()) return;
  carbon::PacedJob before = paced(at);
  carbon::PacedJobPast past = at.past;
  past.elapsed = std::max(Seconds{0}, past.elapsed - duration);
  before.resume(past);
  before.take_measured({.energy = decided.power * duration, .work = done, .time = duration},
                       duration, decided.weight);
  state_.spent = before.past().spent;
  state_.static_spent = before.past().static_spent;
}

/// Keeps a decision, to compare it with its outcome.
void CarbonController::keep(const Situation& at, const CarbonDecision& decision, double speed,
                            Seconds lost, Watts power) {
  const double weight = at.outlook.may_control ? at.outlook.intervals.front().weight : 0;
  state_.decided = DecidedInterval{.from = at.job.even,
                                   .done = at.job.done,
                                   .speed = speed,
                                   .lost = lost,
                                   .power = power,
                                   .weight = weight,
                                   .fastest = at.fastest,
                                   .length = decision.valid_until - at.job.now};
  const bool pauses = decision.mode == CarbonDecision::Mode::kPaused;
  if (pauses != state_.is_paused) {
    state_.is_paused = pauses;
    state_.switched = at.job.now;
  }
}

CarbonController::Situation CarbonController::situation_of(const ControlledJob& job,
                                                           carbon::PaceCurve curve) {
  const double gpus = job.paces.gpus;
  const Watts host = terms_.host_power * gpus;
  Situation at{.job = job, .curve = std::move(curve), .fastest = job.paces.fastest()};
  at.pacing.work = left_of(job) * at.fastest.value;
  const auto all = static_cast<double>(terms_.iterations.value_or(0)) - state_.done_at_begin;
  at.all = std::max(all * at.fastest.value, at.pacing.work);
  state_.pauses_ignored = state_.pauses_ignored || job.pauses_ignored;
  if (state_.pauses_ignored) state_.is_paused = false;
  if (terms_.pause && !state_.pauses_ignored) {
    const CarbonPause& pause = *terms_.pause;
    at.pacing.pause = {.allowed = true,
                       .idle_power = pause.idle_power ? *pause.idle_power * gpus + host
                                                      : at.curve.fastest().power * kIdleShare,
                       .stop = pause.stop,
                       .start = pause.start,
                       .min_dwell = pause.min_dwell};
  }
  if (const auto embodied = parse_embodied(terms_.embodied); embodied.ok()) {
    at.pacing.held_cost = embodied_share(*embodied, Seconds{1}).value * gpus;
  }
  at.time_left = state_.deadline - job.now;
  std::optional<Seconds> since;
  if (state_.switched > Seconds{0}) since = std::max(Seconds{0}, job.now - state_.switched);
  at.past = {.work_left = at.pacing.work,
             .elapsed = std::max(Seconds{0}, job.now - state_.begun),
             .state = {.is_paused = state_.is_paused, .since = since, .has_begun = true},
             .spent = state_.spent,
             .static_spent = state_.static_spent};
  settle(job, at);
  at.past.spent = state_.spent;
  at.past.static_spent = state_.static_spent;
  at.reserve = state_.spread.reserve(at.pacing.work, terms_.probability);
  at.needed = at.pacing.work + at.reserve;
  return at;
}

carbon::PacedJob CarbonController::paced(const Situation& at) const {
  carbon::PacingJob whole = at.pacing;
  whole.work = std::max(at.all, 1.0);
  carbon::PacedJob made(at.curve, whole,
                        {.deadline = std::max(state_.deadline - state_.begun, Seconds{1}),
                         .reserve = at.pacing.work > 0 ? at.reserve / at.pacing.work : 0,
                         .guard = terms_.guard,
                         .guard_share = 1 - terms_.guard_confidence});
  made.resume(at.past);
  return made;
}

CarbonDecision CarbonController::nothing_left(const ControlledJob& job, std::string why) {
  state_.decided.reset();
  state_.is_paused = false;
  CarbonDecision decision{.valid_until = job.now + Seconds{kUsualStep}, .why = std::move(why)};
  if (!terms_.is_open_ended()) {
    decision.deadline = state_.deadline;
    decision.finish = decision.earliest = job.now;
  }
  return decision;
}

CarbonDecision CarbonController::decide(const ControlledJob& job, const IntensityReading& reading) {
  begin(job, reading);
  Result<carbon::PaceCurve> curve =
      carbon::PaceCurve::make(job.paces.iterations, terms_.host_power * double(job.paces.gpus));
  if (!curve.ok()) return nothing_left(job, curve.error().text());
  if (terms_.iterations && left_of(job) <= 0) return nothing_left(job, "all iterations are done");
  Situation at = situation_of(job, *std::move(curve));
  const Seconds until = terms_.is_open_ended() ? job.now + look_ahead(job.now, reading)
                                               : std::max(state_.deadline, job.now + Seconds{1});
  at.outlook = outlook_of(reading, job.now, until);
  if (reading.forecast && reading.identity.kind != state_.kind) {
    at.outlook = {.why_not = "the source's kind of intensity has changed since control began"};
  }
  CarbonDecision decision{.valid_until = job.now + Seconds{kUsualStep}};
  if (at.outlook.may_control) {
    decision.valid_until = job.now + at.outlook.intervals.front().duration;
    decision.present = at.outlook.present;
    decision.step = at.outlook.step;
  }
  return terms_.is_open_ended() ? without_end(at, std::move(decision))
                                : by_deadline(at, std::move(decision));
}

CarbonDecision CarbonController::by_deadline(const Situation& at, CarbonDecision decision) {
  using Mode = CarbonDecision::Mode;
  const Seconds now = at.job.now;
  const Seconds earliest = now + Seconds{at.pacing.work * (1 + state_.spread.mean_loss())};
  decision.deadline = state_.deadline;
  decision.earliest = earliest;
  decision.reserve = Seconds{at.reserve};
  const Seconds step = decision.valid_until - now;
  const double near =
      std::max({kShareOfTimeLeft * at.time_left.value, kShareOfInterval * step.value, 1.0});
  decision.valid_until = now + std::min(step, Seconds{near});
  const double held = state_.is_paused ? at.pacing.pause.start.value : 0;
  if (at.needed + held >= at.time_left.value) {
    decision.mode = Mode::kFastest;
    const std::string deadline = "the deadline " + at_text(state_.deadline);
    decision.why = earliest > state_.deadline ? deadline + " cannot be met: ready at " +
                                                    at_text(earliest) + " at full speed"
                                              : deadline + " is near: full speed";
    return steady(at, std::move(decision));
  }
  if (!at.outlook.may_control) {
    decision.mode = Mode::kStatic;
    decision.why = at.outlook.why_not;
    return steady(at, std::move(decision));
  }
  if (terms_.guard) decision.guard = guard_text(at.outlook);
  return by_plan(at, std::move(decision));
}

}  // namespace harpe::training
