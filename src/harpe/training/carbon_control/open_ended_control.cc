// Control of a job whose length is not known: it keeps within its slack, as it is measured.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/carbon/pacing/open_ended_job.h"
#include "harpe/training/carbon_control/carbon_controller.h"
#include "harpe/training/carbon_control/control_situation.h"

namespace harpe::training {
namespace {

/// Work that is done ahead pays where the forecast ends, so the job looks twice as far.
constexpr double kBeyondForecast = 2;
/// A job that looked no further than its slack would put off all that it can.
constexpr double kBeyondSlack = 2;
constexpr Seconds kWithoutForecast{86'400};
/// A decision may come late by as much as it was for, and a restart of the server between.
constexpr double kLatest = 2;
constexpr Seconds kRounding{1};

std::string hours_text(Seconds time) {
  return shortest(time.value / 3600, 3) + " h";
}

}  // namespace

/// From now on.
Seconds CarbonController::look_ahead(Seconds now, const IntensityReading& reading) const {
  Seconds ahead = *terms_.slack * kBeyondSlack;
  if (reading.forecast) {
    const Seconds end{static_cast<double>(reading.forecast->expected.end().since_1970)};
    ahead = std::max(ahead, (end - now) * kBeyondForecast);
  }
  return std::clamp(ahead, Seconds{1}, 2 * kBeyondSlack * CarbonTerms::kLongestSlack);
}

/// While control was away (no server ran, or training did not), neither time nor more work counts
/// than was decided upon: what control did not put off, it does not make up for.
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
  // What the next interval may lose must not lead beyond the slack.
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
    decision.why = hours_text(behind) + " behind, of " + hours_text(*terms_.slack) +
                   " that it may be: as fast as it can";
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
