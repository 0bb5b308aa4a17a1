// Decisions on the next interval, by a plan or at one steady pace.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/base/units.h"
#include "harpe/carbon/pacing/open_ended_job.h"
#include "harpe/carbon/pacing/pace_curve.h"
#include "harpe/carbon/pacing/pacing_plan.h"
#include "harpe/training/carbon_control/carbon_controller.h"

namespace harpe::training {
namespace {

/// Work done in advance pays off beyond the end of the forecast, so the job looks twice as far.
constexpr double kBeyondForecast = 2;
/// A job that looked ahead only as far as its slack would postpone all the work it can.
constexpr double kBeyondSlack = 2;
constexpr Seconds kWithoutForecast{86'400};
/// A decision may be late by its own length, which allows for a restart of the server.
constexpr double kLatest = 2;
constexpr Seconds kRounding{1};

std::string hours_text(Seconds time) {
  return shortest(time.value / 3600, 3) + " h";
}

constexpr double kSecondsOfIdle = 1;  // a shorter idle time is not requested

std::string intensity_text(double grams_per_kwh) {
  // Small intensities keep their digits, to avoid "0 g/kWh" for a low-carbon grid.
  const bool is_small = std::abs(grams_per_kwh) < 10;
  return shortest(is_small ? grams_per_kwh : std::round(grams_per_kwh), is_small ? 3 : 6) +
         " g/kWh";
}

double speed_of(const carbon::PaceCurve& curve, const carbon::PacedInterval& paced) {
  const double slow = curve.paces()[paced.pace].speed;
  if (paced.faster_share <= 0) return slow;
  return slow + paced.faster_share * (curve.paces()[paced.pace + 1].speed - slow);
}

/// One pace for all hours: the baseline of a plan, and the pace of a job without a forecast.
struct SteadyChoice {
  carbon::SteadyPace pace = {};
  double grams = 0;  ///< of the job's work, at that pace
};

/// Returns the grams of some work at one pace. The weight of the last interval continues after it.
double grams_at(const carbon::SteadyPace& pace, double work, const carbon::PacingJob& job,
                const std::vector<carbon::PacingInterval>& intervals) {
  double time = work / pace.speed, grams = job.held_cost * time;
  for (std::size_t i = 0; i < intervals.size() && time > 0; ++i) {
    const bool is_last = i + 1 == intervals.size();
    const double part = is_last ? time : std::min(time, intervals[i].duration.value);
    grams += intervals[i].weight * pace.power.value * part;
    time -= part;
  }
  return grams;
}

/// Returns the pace with the least grams that does `needed` in `time`, or the fastest pace if none
/// does. Without intensities, all hours count the same. O(paces x intervals).
/// \param needed  work to do in `time`, in seconds at the fastest pace
/// \param intervals  from now on, weights in grams per joule; the last one continues
SteadyChoice best_steady(const carbon::PaceCurve& curve, const carbon::PacingJob& job,
                         double needed, Seconds time,
                         const std::vector<carbon::PacingInterval>& intervals) {
  const std::vector<carbon::PacingInterval> alike{{Seconds{1}, 1}};
  const auto& hours = intervals.empty() ? alike : intervals;
  carbon::PacingJob priced = job;
  if (intervals.empty()) priced.held_cost = 0;
  const double least = time.value > 0 ? needed / time.value : 2;
  SteadyChoice best{.pace = {.speed = 1, .power = curve.fastest().power}};
  best.grams = grams_at(best.pace, job.work, priced, hours);
  const auto consider = [&](double speed) {
    SteadyChoice one{.pace = carbon::steady_pace(curve, speed)};
    one.grams = grams_at(one.pace, job.work, priced, hours);
    if (one.grams < best.grams) best = one;
  };
  if (least >= 1) return best;
  for (const carbon::CurvePace& pace : curve.paces()) {
    if (pace.speed >= least) consider(pace.speed);
  }
  if (least > curve.slowest().speed) consider(least);
  return best;
}

/// The predicted outcome of a plan.
struct Foreseen {
  double done = 0;  ///< work
  double grams = 0;
  Seconds end{}, resumes{};  ///< since 1970
};

Seconds idles_first(const carbon::PacedInterval& paced, Seconds duration) {
  return paced.idles_first ? duration - paced.lost - paced.run : Seconds{0};
}

}  // namespace

CarbonDecision CarbonController::steady(const Situation& at, CarbonDecision decision) {
  const carbon::SteadyPace pace =
      best_steady(at.curve, at.pacing, at.needed, at.time_left, at.outlook.intervals).pace;
  decision.iteration_time = at.fastest / pace.speed;
  const Seconds lost = state_.is_paused ? at.pacing.pause.start : Seconds{0};
  if (decision.deadline) {
    const double mean = 1 + state_.spread.mean_loss();
    decision.finish = at.job.now + lost + Seconds{at.pacing.work * mean / pace.speed};
    decision.in_time = *decision.finish <= *decision.deadline;
  }
  keep(at, decision, pace.speed, lost, pace.power);
  return decision;
}

bool CarbonController::guards_by_errors(const IntensityOutlook& outlook) const {
  return terms_.guard_confidence < 1 &&
         outlook.outlooks.size() >= carbon::PacedJob::kFewestOutlooks;
}

std::string CarbonController::guard_text(const IntensityOutlook& outlook) const {
  const std::string count = std::to_string(outlook.outlooks.size());
  if (guards_by_errors(outlook)) return "by the errors of " + count + " earlier forecasts";
  std::string text = "by the range of the forecast";
  if (terms_.guard_confidence < 1) {
    text += ": errors of " + std::to_string(carbon::PacedJob::kFewestOutlooks) +
            " earlier ones are needed up to the deadline, " + count + " are known";
  }
  return text;
}

std::optional<carbon::PacingPlan> CarbonController::plan_of(const Situation& at) const {
  const IntensityOutlook& outlook = at.outlook;
  if (terms_.is_open_ended()) return open_ended(at).plan(outlook.intervals);
  if (terms_.guard && guards_by_errors(outlook)) {
    return paced(at).plan(outlook.intervals, outlook.outlooks);
  }
  return paced(at).plan(outlook.intervals, outlook.next, outlook.ever);
}

CarbonDecision CarbonController::by_plan(const Situation& at, CarbonDecision decision) {
  const std::vector<carbon::PacingInterval>& hours = at.outlook.intervals;
  const std::optional<carbon::PacingPlan> plan = plan_of(at);
  if (!plan || plan->intervals.empty()) return steady(at, std::move(decision));
  // The prediction counts the expected losses, without the reserve.
  const double work = terms_.is_open_ended() ? std::numeric_limits<double>::infinity()
                                             : at.pacing.work * (1 + state_.spread.mean_loss());
  Foreseen seen{.end = at.job.now, .resumes = at.job.now};
  bool still_paused = true;
  for (std::size_t i = 0; i < plan->intervals.size() && i < hours.size() && seen.done < work; ++i) {
    const carbon::PacedInterval& one = plan->intervals[i];
    const Seconds duration = std::min(hours[i].duration, at.job.now + at.time_left - seen.end);
    const carbon::IntervalUse use = carbon::use_of(at.curve, at.pacing, one, duration);
    const double share = use.work > 0 ? std::min(1.0, (work - seen.done) / use.work) : 1;
    seen.grams +=
        (hours[i].weight * use.energy.value + at.pacing.held_cost * use.time.value) * share;
    seen.done += use.work * share;
    seen.end += use.time * share;
    if (still_paused) seen.resumes += one.runs ? idles_first(one, duration) : duration;
    still_paused = still_paused && !one.runs;
  }
  carbon::PacingJob same = at.pacing;
  Seconds until = at.time_left;
  double needed = at.needed;
  bool is_whole = seen.done >= work * (1 - 1e-6);
  if (terms_.is_open_ended()) {
    // Compares up to the time when the slack binds, if it does: the plan covers no work after it.
    const carbon::OpenEndedJob job = open_ended(at);
    is_whole = job.done() + seen.done >= job.required(job.elapsed() + until) * (1 - 1e-6);
    if (!is_whole) until = seen.end - at.job.now;
    same.work = seen.done;
    // If the job is behind, the plan catches up; the steady job has to do the same.
    needed = std::max(seen.done, until.value / *terms_.deadline_factor);
  } else {
    decision.finish = is_whole ? seen.end : decision.deadline;
  }
  if (is_whole || terms_.is_open_ended()) {
    decision.grams = seen.grams;
    decision.static_grams = best_steady(at.curve, same, needed, until, hours).grams;
  }
  decision.why = intensity_text(at.outlook.present.grams_per_kwh);
  const auto gain = decision.gain();
  if (is_whole && gain && *gain < kLeastGain && !state_.is_paused) {
    decision.mode = CarbonDecision::Mode::kNothingToGain;
    decision.why += ", with nothing to gain";
    return steady(at, std::move(decision));
  }
  return first_of(at, *plan, seen.resumes, std::move(decision));
}

/// Returns the first interval of a plan as a decision.
CarbonDecision CarbonController::first_of(const Situation& at, const carbon::PacingPlan& plan,
                                          Seconds resumes, CarbonDecision decision) {
  using Mode = CarbonDecision::Mode;
  const carbon::PacedInterval& next = plan.intervals.front();
  const Seconds whole = std::min(at.outlook.intervals.front().duration, at.time_left);
  const Seconds idle = idles_first(next, whole);
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
  keep(at, decision, speed, next.lost, carbon::steady_pace(at.curve, speed).power);
  return decision;
}

// Control of a job of unknown length: its measured delay stays within its slack.

/// Returns the time from now that a plan covers.
Seconds CarbonController::look_ahead(Seconds now, const IntensityReading& reading) const {
  Seconds ahead = *terms_.slack * kBeyondSlack;
  if (reading.forecast) {
    const Seconds end{static_cast<double>(reading.forecast->expected.end().since_1970)};
    ahead = std::max(ahead, (end - now) * kBeyondForecast);
  }
  return std::clamp(ahead, Seconds{1}, 2 * kBeyondSlack * CarbonTerms::kLongestSlack);
}

/// If no server controlled the job, or it did not train, for longer than decided, counts at most
/// the time and the work of the decision: delays outside control are not caught up.
void CarbonController::count(const DecidedInterval& decided, Seconds& duration, double& done) {
  if (duration > decided.length * kLatest) {
    duration = decided.length;
    done = std::min(done, duration.value);
  }
  state_.elapsed += duration;
  state_.worked = std::max(0.0, state_.worked + done);
}

carbon::OpenEndedJob CarbonController::open_ended(const Situation& at) const {
  const double slower = *terms_.deadline_factor;
  const Seconds slack = std::max(Seconds{0}, *terms_.slack - Seconds{at.reserve * slower});
  carbon::OpenEndedJob made(at.curve, {.slowdown = slower - 1,
                                       .slack = slack,
                                       .pause = at.pacing.pause,
                                       .held_cost = at.pacing.held_cost});
  made.resume({.done = state_.worked, .elapsed = state_.elapsed, .state = at.past.state});
  return made;
}

CarbonDecision CarbonController::without_end(Situation& at, CarbonDecision decision) {
  using Mode = CarbonDecision::Mode;
  const double slower = *terms_.deadline_factor;
  const Seconds step = decision.valid_until - at.job.now;
  // The possible loss of the next interval must stay within the slack.
  at.reserve = state_.spread.reserve(step.value, terms_.probability);
  at.time_left = kWithoutForecast;
  if (at.outlook.may_control) {
    at.time_left = {};
    for (const carbon::PacingInterval& hour : at.outlook.intervals) at.time_left += hour.duration;
  }
  at.needed = at.time_left.value / slower;
  at.pacing.work = at.needed;
  decision.reserve = Seconds{at.reserve};
  decision.valid_until = std::max(decision.valid_until, at.job.now + Seconds{1});
  const Seconds behind = state_.elapsed - Seconds{state_.worked * slower};
  decision.behind = behind;
  decision.in_time = behind <= *terms_.slack + kRounding;
  if (!decision.in_time) {
    decision.mode = Mode::kFastest;
    decision.why =
        hours_text(behind) + " behind, of " + hours_text(*terms_.slack) + " allowed: full speed";
    at.needed = std::numeric_limits<double>::infinity();
    return steady(at, std::move(decision));
  }
  if (!at.outlook.may_control) {
    decision.mode = Mode::kStatic;
    decision.why = at.outlook.why_not;
    return steady(at, std::move(decision));
  }
  return by_plan(at, std::move(decision));
}

}  // namespace harpe::training
