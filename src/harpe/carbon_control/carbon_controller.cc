#include "harpe/carbon_control/carbon_controller.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/base/text.h"

namespace harpe {
namespace {

constexpr double kSecondsOfIdle = 1;  // shorter ones are not asked for
constexpr double kIdleShare = 0.2;    // of the power at the fastest pace, where it is not given
constexpr double kDoneShare = 1e-9;
/// Iterations planned: fewer say little of how progress strays.
constexpr double kFewestLearned = 5;
/// Decisions come at least four times in what is left until the deadline, and 20 an interval at
/// most.
constexpr double kShareOfTimeLeft = 0.25, kShareOfInterval = 0.05;
constexpr double kUsualStep = 3600;  // s, without a forecast

std::string at_text(Seconds time) {
  return utc_text(UtcTime{static_cast<std::int64_t>(time.value)});
}

std::string intensity_text(double grams_per_kwh) {
  return shortest(std::round(grams_per_kwh), 6) + " g/kWh";
}

/// One pace all along.
struct SteadyPace {
  double speed = 1;
  Watts power{};
  double grams = 0;
};

/// Of a mixture of two neighbours, or of a pace.
Watts power_at(const PaceCurve& curve, double speed) {
  const std::size_t pace = curve.at_least(speed * (1 - kDoneShare));
  const CurvePace& fast = curve.paces()[pace];
  if (pace == 0 || fast.speed <= speed) return fast.power;
  return fast.power - Watts{curve.slope(pace - 1) * (fast.speed - speed)};
}

/// Grams of so much work at one pace, hour by hour; after the last interval as in it.
double grams_at(const SteadyPace& pace, double work, const PacingJob& job,
                const std::vector<PacingInterval>& intervals) {
  double time = work / pace.speed, grams = job.held_cost * time;
  for (std::size_t i = 0; i < intervals.size() && time > 0; ++i) {
    const bool is_last = i + 1 == intervals.size();
    const double part = is_last ? time : std::min(time, intervals[i].duration.value);
    grams += intervals[i].weight * pace.power.value * part;
    time -= part;
  }
  return grams;
}

/// The one of least grams that does `needed` in the time; the fastest where none does. Where no
/// intensity is known, all hours are alike.
SteadyPace best_steady(const PaceCurve& curve, const PacingJob& job, double needed, Seconds time,
                       const std::vector<PacingInterval>& intervals) {
  const std::vector<PacingInterval> alike{{Seconds{1}, 1}};
  const auto& hours = intervals.empty() ? alike : intervals;
  PacingJob priced = job;
  if (intervals.empty()) priced.held_cost = 0;
  const double least = time.value > 0 ? needed / time.value : 2;
  SteadyPace best{.speed = 1, .power = curve.fastest().power};
  best.grams = grams_at(best, job.work, priced, hours);
  const auto consider = [&](double speed) {
    SteadyPace one{.speed = speed, .power = power_at(curve, speed)};
    one.grams = grams_at(one, job.work, priced, hours);
    if (one.grams < best.grams) best = one;
  };
  if (least >= 1) return best;
  for (const CurvePace& pace : curve.paces()) {
    if (pace.speed >= least) consider(pace.speed);
  }
  if (least > curve.slowest().speed) consider(least);
  return best;
}

double speed_of(const PaceCurve& curve, const PacedInterval& paced) {
  const double slow = curve.paces()[paced.pace].speed;
  if (paced.faster_share <= 0) return slow;
  return slow + paced.faster_share * (curve.paces()[paced.pace + 1].speed - slow);
}

}  // namespace

std::optional<double> CarbonDecision::gain() const {
  if (!grams || !static_grams || !(*static_grams > 0)) return std::nullopt;
  return 1 - *grams / *static_grams;
}

const char* name_of(CarbonDecision::Mode mode) {
  switch (mode) {
    case CarbonDecision::Mode::kPaced:
      return "paced";
    case CarbonDecision::Mode::kPaused:
      return "paused";
    case CarbonDecision::Mode::kNothingToGain:
      return "nothing to gain";
    case CarbonDecision::Mode::kStatic:
      return "static";
    case CarbonDecision::Mode::kFastest:
      return "fastest";
    case CarbonDecision::Mode::kDone:
      break;
  }
  return "done";
}

/// What a decision rests on.
struct CarbonController::Situation {
  const ControlledJob& job;
  PaceCurve curve;
  Seconds fastest{};    ///< of an iteration
  PacingJob pacing{};   ///< its work is what is left
  double all = 0;       ///< work since control began
  double reserve = 0;   ///< work
  Seconds time_left{};  ///< until the deadline
  IntensityOutlook outlook{};
  PacedJobPast past{};

  double needed() const { return pacing.work + reserve; }
  PacedJob paced(const CarbonTerms& terms, const ControlState& state) const {
    PacingJob whole = pacing;
    whole.work = std::max(all, 1.0);
    PacedJob made(curve, whole,
                  {.deadline = std::max(state.deadline - state.begun, Seconds{1}),
                   .reserve = pacing.work > 0 ? reserve / pacing.work : 0,
                   .guard = terms.guard});
    made.resume(past);
    return made;
  }
};

CarbonController::CarbonController(CarbonTerms terms, ControlState state)
    : terms_(std::move(terms)), state_(std::move(state)) {}

void CarbonController::begin(const ControlledJob& job, const IntensityReading& reading) {
  if (!state_.has_begun()) {
    state_.begun = job.now;
    state_.done_at_begin = job.done;
    const double left = std::max(0.0, static_cast<double>(terms_.iterations) - job.done);
    state_.deadline = job.now + job.paces.fastest() * (left * terms_.deadline_factor.value_or(1));
  }
  if (terms_.deadline) {
    state_.deadline = Seconds{static_cast<double>(terms_.deadline->since_1970)};
  }
  // What it may go by is settled by what it begins with.
  if (state_.source.empty() && reading.forecast) {
    state_.source = reading.identity.name();
    state_.kind = reading.identity.kind;
  }
}

/// What became of the interval that was decided upon last.
void CarbonController::settle(const ControlledJob& job, const Situation& at) {
  if (!state_.decided) return;
  const DecidedInterval decided = *std::exchange(state_.decided, std::nullopt);
  const Seconds duration = job.even - decided.from;
  if (duration.value <= 0) return;  // of another clock
  const double planned = decided.speed * std::max(0.0, (duration - decided.lost).value);
  const double done = (job.done - decided.done) * decided.fastest.value;
  if (planned >= kFewestLearned * decided.fastest.value) {
    state_.spread.add({.planned = planned, .lost = std::clamp(planned - done, -planned, planned)});
  }
  PacedJob before = at.paced(terms_, state_);
  PacedJobPast past = at.past;
  past.elapsed = std::max(Seconds{0}, past.elapsed - duration);
  before.resume(past);
  before.take_measured({.energy = decided.power * duration, .work = done, .time = duration},
                       duration, decided.weight);
  state_.spent = before.past().spent;
  state_.static_spent = before.past().static_spent;
}

/// What is to be compared with what becomes of it.
void CarbonController::keep(const Situation& at, const CarbonDecision& decision, double speed,
                            Seconds lost, Watts power) {
  const double weight = at.outlook.may_control ? at.outlook.intervals.front().weight : 0;
  state_.decided = DecidedInterval{.from = at.job.even,
                                   .done = at.job.done,
                                   .speed = speed,
                                   .lost = lost,
                                   .power = power,
                                   .weight = weight,
                                   .fastest = at.fastest};
  const bool pauses = decision.mode == CarbonDecision::Mode::kPaused;
  if (pauses != state_.is_paused) {
    state_.is_paused = pauses;
    state_.switched = at.job.now;
  }
}

CarbonDecision CarbonController::steady(const Situation& at, CarbonDecision decision) {
  const SteadyPace pace =
      best_steady(at.curve, at.pacing, at.needed(), at.time_left, at.outlook.intervals);
  decision.iteration_time = at.fastest / pace.speed;
  const Seconds lost = state_.is_paused ? at.pacing.pause.start : Seconds{0};
  const double mean = 1 + state_.spread.mean_loss();
  decision.finish = at.job.now + lost + Seconds{at.pacing.work * mean / pace.speed};
  decision.in_time = decision.finish <= decision.deadline;
  keep(at, decision, pace.speed, lost, pace.power);
  return decision;
}

CarbonDecision CarbonController::by_plan(const Situation& at, CarbonDecision decision) {
  using Mode = CarbonDecision::Mode;
  const std::vector<PacingInterval>& hours = at.outlook.intervals;
  const auto plan = at.paced(terms_, state_).plan(hours, at.outlook.next, at.outlook.ever);
  if (!plan || plan->intervals.empty()) return steady(at, std::move(decision));
  // Through what is expected, without the reserve.
  const double work = at.pacing.work * (1 + state_.spread.mean_loss());
  double done = 0, grams = 0;
  Seconds end = at.job.now;
  Seconds resumes = at.job.now;
  bool still_paused = true;
  for (std::size_t i = 0; i < plan->intervals.size() && i < hours.size() && done < work; ++i) {
    const PacedInterval& one = plan->intervals[i];
    const Seconds duration = std::min(hours[i].duration, at.job.now + at.time_left - end);
    const IntervalUse use = use_of(at.curve, at.pacing, one, duration);
    const double share = use.work > 0 ? std::min(1.0, (work - done) / use.work) : 1;
    grams += (hours[i].weight * use.energy.value + at.pacing.held_cost * use.time.value) * share;
    done += use.work * share;
    end += use.time * share;
    if (still_paused) {
      const bool goes_on = one.runs;
      resumes += !goes_on ? duration : one.idles_first ? duration - one.lost - one.run : Seconds{0};
      still_paused = !goes_on;
    }
  }
  const SteadyPace other =
      best_steady(at.curve, at.pacing, at.needed(), at.time_left, at.outlook.intervals);
  const bool is_whole = done >= work * (1 - 1e-6);
  if (is_whole) {
    decision.grams = grams;
    decision.static_grams = other.grams;
  }
  decision.finish = is_whole ? end : decision.deadline;
  const auto gain = decision.gain();
  if (gain && *gain < kLeastGain && !state_.is_paused) {
    decision.mode = Mode::kNothingToGain;
    decision.why = intensity_text(at.outlook.grams_per_kwh) + ", nothing to be gained";
    return steady(at, std::move(decision));
  }
  const PacedInterval& next = plan->intervals.front();
  const Seconds whole = std::min(hours.front().duration, at.time_left);
  const Seconds idle = next.idles_first ? whole - next.lost - next.run : Seconds{0};
  decision.why = intensity_text(at.outlook.grams_per_kwh);
  if (!next.runs || idle.value > kSecondsOfIdle) {
    decision.mode = Mode::kPaused;
    decision.resumes = resumes;
    if (next.runs) decision.valid_until = std::min(decision.valid_until, at.job.now + idle);
    const Seconds stop = state_.is_paused ? Seconds{0} : at.pacing.pause.stop;
    keep(at, decision, 0, stop, at.pacing.pause.idle_power);
    return decision;
  }
  decision.mode = Mode::kPaced;
  const double speed = speed_of(at.curve, next);
  decision.iteration_time = at.fastest / speed;
  keep(at, decision, speed, next.lost, power_at(at.curve, speed));
  return decision;
}

CarbonDecision CarbonController::decide(const ControlledJob& job, const IntensityReading& reading) {
  using Mode = CarbonDecision::Mode;
  begin(job, reading);
  const Watts host = terms_.host_power * static_cast<double>(job.paces.gpus);
  Result<PaceCurve> curve = PaceCurve::make(job.paces.iterations, host);
  CarbonDecision decision{.deadline = state_.deadline};
  const double left = std::max(0.0, static_cast<double>(terms_.iterations) - job.done);
  if (left <= 0 || !curve.ok()) {
    decision.why = curve.ok() ? "all iterations are done" : curve.error().text();
    decision.finish = decision.earliest = job.now;
    decision.valid_until = job.now + Seconds{kUsualStep};
    state_.decided.reset();
    state_.is_paused = false;
    return decision;
  }
  Situation at{.job = job, .curve = *std::move(curve)};
  at.fastest = job.paces.fastest();
  const double gpus = job.paces.gpus;
  at.pacing.work = left * at.fastest.value;
  at.all = (static_cast<double>(terms_.iterations) - state_.done_at_begin) * at.fastest.value;
  at.all = std::max(at.all, at.pacing.work);
  state_.pauses_ignored = state_.pauses_ignored || job.pauses_ignored;
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
  if (state_.pauses_ignored) state_.is_paused = false;
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
  at.outlook = outlook_of(reading, job.now, std::max(state_.deadline, job.now + Seconds{1}));
  if (reading.forecast && reading.identity.kind != state_.kind) {
    at.outlook = {.why_not = "the source's kind of intensity is not that with which control began"};
  }

  const double mean = 1 + state_.spread.mean_loss();
  decision.reserve = Seconds{at.reserve};
  decision.earliest = job.now + Seconds{at.pacing.work * mean};
  const bool controls = at.outlook.may_control;
  Seconds step = controls ? at.outlook.intervals.front().duration : Seconds{kUsualStep};
  const double near =
      std::max(kShareOfTimeLeft * at.time_left.value, std::max(kShareOfInterval * step.value, 1.0));
  decision.valid_until = job.now + std::min(step, Seconds{near});
  if (controls) {
    decision.grams_per_kwh = at.outlook.grams_per_kwh;
    decision.step = at.outlook.step;
  }
  const double held = state_.is_paused ? at.pacing.pause.start.value : 0;
  if (at.needed() + held >= at.time_left.value) {
    decision.mode = Mode::kFastest;
    decision.why = decision.earliest > state_.deadline
                       ? "the deadline " + at_text(state_.deadline) + " cannot be met: ready at " +
                             at_text(decision.earliest) + " at the fastest"
                       : "the deadline " + at_text(state_.deadline) + " is near: as fast as it can";
    return steady(at, std::move(decision));
  }
  if (!controls) {
    decision.mode = Mode::kStatic;
    decision.why = at.outlook.why_not;
    return steady(at, std::move(decision));
  }
  return by_plan(at, std::move(decision));
}

}  // namespace harpe
