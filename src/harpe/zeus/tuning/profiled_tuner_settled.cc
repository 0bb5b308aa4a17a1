// The part of ProfiledTuner that runs once a setting was chosen: looks at the highest setting,
// drift, settings that are too slow, and the end of trials.

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "harpe/zeus/tuning/profiled_tuner.h"

namespace harpe {
namespace {

// As after a switch while profiling: the clock ramps, the limit's controller settles.
constexpr int kSettlingSteps = 10;
// Profiling again must not cost more than it can bring: at most a fifth of the time.
constexpr int kLeastStretch = 4;
// The fraction by which steps may stray, and by which they seem to, seen in ticks of a look.
constexpr double kDrift = 0.05;
constexpr Seconds kTick{0.005};
// Steps of which the mean is known well enough to see 5 % of drift.
constexpr std::int64_t kReferenceSteps = 30;
// Windows of the setting chosen: long enough for energy counters, short enough that the ones beside
// a look are of its time.
constexpr std::size_t kWindowSteps = 20;
constexpr Seconds kWindowTime{4};
// The same of a look, which ends early where its steps scatter little.
constexpr std::size_t kLookSteps = 10, kMostLookSteps = 40;
constexpr Seconds kLookTime{2};
constexpr double kLookPrecision = 0.005;
// The first trials may take so many times the time that the bound allows until then, which later
// steps make up for.
constexpr double kFirstOverdraft = 2;
// Steps of a look in a job of several processes, which must end it alike.
constexpr std::int64_t kJobLook = 32;
// Without steps for so long, and so many times the usual, a trial ends.
constexpr Seconds kSilence{60};
constexpr double kSilentSteps = 20;
constexpr std::int64_t kLeastSteps = 5;  // by which the usual is known
// Between two meetings of a job's processes, in the end: often enough for a drift, too seldom to be
// felt. The first are sooner, for jobs that are short.
constexpr Seconds kMeetingInterval{10};
constexpr std::int64_t kFirstMeeting = 16, kMostBetweenMeetings = 100'000;  // steps

}  // namespace

void ProfiledTuner::settle(std::size_t setting, std::optional<Seconds> expected) {
  choice_ = setting;
  looks_.begin(from_profile_);
  settled_steps_ = 0;
  drift_.reset();
  if (expected) {
    expect(*expected);
    most_between_ = static_cast<std::int64_t>(std::min(std::ceil(kMeetingInterval / *expected),
                                                       static_cast<double>(kMostBetweenMeetings)));
  }
  between_meetings_ = until_meeting_ = kFirstMeeting;
}

void ProfiledTuner::on_settled_step(const StepEvent& event, std::optional<Seconds> took) {
  if (took) {
    ++settled_steps_;
    if (open_) open_->step_times.push_back(took->value);
  }
  if (looks_.under_way()) return on_look_step(event);
  if (took && looks_.steps() > kSettlingSteps) watch(*took);
  const bool wants_look = setting_ != 0 && are_steps_timed_ && looks_.is_due();
  if (decides(event, wants_look) && (has_drifted_ || is_too_slow_ || is_look_due_)) {
    if (open_) close(event.at);
    if (!closed_) leave_setting();
  } else if (event.kind == StepEvent::Kind::kEpochEnd) {
    if (open_) close(event.at);
  } else if (open_ && job_.is_alone() && window_is_full(*open_, event.at)) {
    close(event.at);
  } else if (!open_ && !closed_ && looks_.steps() >= kSettlingSteps) {
    open(event.at, false);
  }
}

void ProfiledTuner::on_look_step(const StepEvent& event) {
  const bool is_alone = job_.is_alone();
  if (event.kind == StepEvent::Kind::kEpochEnd) {
    if (open_) close(event.at);
  } else if (is_alone ? !open_ && looks_.is_complete() : looks_.steps() >= kJobLook) {
    if (open_) close(event.at);
    if (!closed_) end_look();
  } else if (open_ && is_alone && window_is_full(*open_, event.at)) {
    close(event.at);
  } else if (!open_ && looks_.steps() >= kSettlingSteps) {
    open(event.at, false);
  }
}

bool ProfiledTuner::window_is_full(const Window& window, Instant now) const {
  const std::size_t steps = window.step_times.size();
  const Seconds time = now - window.begin;
  if (!looks_.under_way()) return steps >= kWindowSteps && time >= kWindowTime;
  if (steps < kLookSteps || time < kLookTime) return false;
  const MeanWithError step = mean_with_error(window.step_times);
  return steps >= kMostLookSteps || step.error <= kLookPrecision * step.mean;
}

void ProfiledTuner::end_look() {
  const auto move = account_.last_move(*choice_, own_host_power());
  looks_.end(move && std::abs(move->log_ratio) > move->error);
  set(*choice_);
}

/// Asked after each window: a look may say that the setting does not keep its bound, and trials may
/// take too long.
void ProfiledTuner::judge() {
  if (!options_.selector.most_slowdown || !are_steps_timed_) return;
  const double bound = *options_.selector.most_slowdown;
  if (job_.is_alone()) looks_.owe(account_.delay(), bound);
  if (choice_) {
    const auto slowdown = account_.slowdown(*choice_);
    is_too_slow_ = is_too_slow_ || (*choice_ != 0 && slowdown && slowdown->ratio > bound);
  } else if (job_.is_alone() && !profiler_.done()) {
    const SavingAccount::Delay delay = account_.delay();
    // The first trials end at what they surely took, later ones at what they may have taken: steps
    // that vary have had them begin.
    const bool are_first = profilings_ == 1;
    const Seconds taken = are_first ? delay.beyond : delay.beyond + delay.deviation;
    const double most = (bound - 1) * (are_first ? kFirstOverdraft : 1);
    if (taken > delay.at_highest * most) stop_profiling();
  }
}

bool ProfiledTuner::surely_keeps_bound() const {
  if (!options_.selector.most_slowdown || *choice_ == 0) return true;
  const auto slowdown = account_.slowdown(*choice_);
  return !looks_.owes() && slowdown &&
         slowdown->ratio + slowdown->error <= *options_.selector.most_slowdown;
}

/// At the best setting known.
void ProfiledTuner::stop_profiling() {
  cancel();
  const std::size_t best = profiler_.best_so_far().value_or(0);
  profiling_steps_ += profiler_.steps();
  settle(best, std::nullopt);
  set(best);
}

/// Alone at every event, with others where they have met.
bool ProfiledTuner::decides(const StepEvent& event, bool wants_look) {
  is_look_due_ = wants_look;
  if (job_.is_alone()) return true;
  if (event.kind != StepEvent::Kind::kStep || --until_meeting_ > 0) return false;
  between_meetings_ = std::max(kFirstMeeting, std::min(2 * between_meetings_, most_between_));
  until_meeting_ = between_meetings_;
  meet();
  return failure_.empty();
}

/// What one process has noticed holds for all.
void ProfiledTuner::meet() {
  const Saving own = account_.saving(own_host_power());
  std::array<double, 3> sums{own.saved.value, own.at_highest.value, std::pow(own.error.value, 2)};
  std::array<double, 3> noticed{has_drifted_ ? 1.0 : 0.0, is_too_slow_ ? 1.0 : 0.0,
                                is_look_due_ ? 1.0 : 0.0};
  const Status met = job_.exchange(!lost_.empty(), sums, noticed);
  if (!met.ok()) return lose(met.error());
  job_saving_ = Saving{.saved = {sums[0]}, .error = {std::sqrt(sums[2])}, .at_highest = {sums[1]}};
  has_drifted_ = noticed[0] > 0;
  is_too_slow_ = noticed[1] > 0;
  is_look_due_ = noticed[2] > 0;
}

void ProfiledTuner::leave_setting() {
  if (has_drifted_) {
    ledger_ = StepLedger(setter_.knob().size());
    profiler_ = SettingProfiler::make(setter_.knob(), profiling_).take();  // as it was made before
    begin_profiling();
  } else if (is_too_slow_) {
    is_too_slow_ = false;
    settle(higher_setting(), std::nullopt);
    set(*choice_);
  } else {
    looks_.start();
    set(0);
  }
}

/// The next higher setting, or one farther up where the one chosen is surely far from its bound: as
/// if steps became longer in proportion to the position.
std::size_t ProfiledTuner::higher_setting() const {
  const auto slowdown = account_.slowdown(*choice_);
  // Processes of a job go up alike.
  if (!slowdown || !job_.is_alone()) return *choice_ - 1;
  const double allowed = *options_.selector.most_slowdown - 1;
  const double surely = std::max(slowdown->ratio - slowdown->error - 1, allowed);
  const double share = surely > 0 ? allowed / surely : 1;
  return std::min(*choice_ - 1, static_cast<std::size_t>(share * static_cast<double>(*choice_)));
}

void ProfiledTuner::expect(Seconds step) {
  drift_.emplace(step, kDrift + kTick / step);
}

void ProfiledTuner::watch(Seconds step) {
  if (is_pause(step) || !are_steps_timed_) return;
  if (!drift_ && looks_.steps() >= kReferenceSteps) {
    expect({usual_step_});
  } else if (drift_ && drift_->add(step)) {
    has_drifted_ = may_profile();
    if (has_drifted_) return;
    // Whether the highest setting has drifted, too, is looked at.
    looks_.want();
    drift_.reset();
  }
}

bool ProfiledTuner::may_profile() const {
  const std::int64_t most = std::max<std::int64_t>(profiler_.steps(), profiling_steps_);
  return trials_ended_.empty() && setter_.knob().size() > 1 && !looks_.owes() &&
         settled_steps_ >= kLeastStretch * std::int64_t{profiler_.steps()} &&
         steps_ >= (kLeastStretch + 1) * most;
}

/// The power of the setting chosen, where it is not known when steps begin.
void ProfiledTuner::measure_untimed(Instant before, Instant now) {
  if (!failure_.empty() || finished_) return;
  account_.step(setting_, now - before);
  if (!open_ && !closed_) {
    open(now, false);
  } else if (open_ && now - open_->begin >= kWindowTime) {
    close(now);
  }
}

bool ProfiledTuner::is_silent(Instant now) const {
  const bool tries = !choice_ || looks_.under_way();
  if (!tries || !job_.is_alone() || finished_ || ended_epoch_ || steps_ < kLeastSteps) return false;
  const Seconds silence = now - last_event_;
  return silence > kSilence && silence.value > kSilentSteps * usual_step_;
}

void ProfiledTuner::end_trials(const std::string& why, bool are_steps_timed) {
  if (!job_.is_alone() || !failure_.empty() || !lost_.empty()) return;
  trials_ended_.push_back(why);
  const bool tries = !choice_ || looks_.under_way();
  // What was measured until the last step counts, but no more for a trial.
  if (open_ && !open_->step_times.empty() && (tries || !are_steps_timed)) {
    open_->end = last_event_;
    open_->is_of_profiler = false;
    take(*std::exchange(open_, std::nullopt));
  }
  if (tries || !are_steps_timed) cancel();
  if (!are_steps_timed) account_.step(setting_, polled_ - last_event_);
  last_event_ = polled_;
  has_drifted_ = is_too_slow_ = false;
  are_steps_timed_ = are_steps_timed_ && are_steps_timed;
  if (!choice_) stop_profiling();
  // Without times, a bound can be kept only by a setting that surely keeps it.
  const bool is_safe = are_steps_timed_ || surely_keeps_bound();
  const std::size_t setting = is_safe ? *choice_ : 0;
  if (setting == setting_ && !looks_.under_way()) return;
  settle(setting, std::nullopt);
  set(setting);
}
}  // namespace harpe
