#include "harpe/zeus/tuning/profiled_tuner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "harpe/base/text.h"

namespace harpe {
namespace {

// A window must end before the samples of its end are forgotten.
constexpr Seconds kLongestSilence{100};
// A step so many times the usual is none: a validation, a checkpoint.
constexpr double kPause = 5;
// How far an earlier run's figures may be off this one's, where both are the same job.
constexpr double kKnownError = 0.02;

// Steps after a switch that are not measured: the clock ramps, and the limit's controller settles.
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
// Limits of a look, which ends early if its steps scatter little.
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

constexpr std::int64_t kFirst = 80, kFirstByEarlierRun = 40;  // steps
// A look that is wanted is due after so many, at most.
constexpr double kSoon = 60;
// Steps between two looks, as a multiple of those of a look.
constexpr std::int64_t kOften = 8, kSeldom = 99;
// Range of the factor on the steps between two looks.
constexpr double kShortest = 0.7, kLongest = 1.3;
// Measured steps of a look, and those after which it ends without them.
constexpr std::int64_t kEnough = 10, kInVain = 400;
// Shares of the time that the bound allows: beyond the first a run goes back to the highest
// setting, and leaves it below the second. Below 1, as times are estimates.
constexpr double kGoesBack = 0.97, kLeaves = 0.9;

}  // namespace

ProfiledTuner::ProfiledTuner(TunerOptions options, ProfilerOptions profiling,
                             SettingProfiler profiler, KnobSetter& setter, WindowMeter& meter,
                             Peers* peers)
    : options_(std::move(options)),
      profiling_(std::move(profiling)),
      profiler_(std::move(profiler)),
      setter_(setter),
      meter_(meter),
      job_(peers),
      ledger_(setter.knob().size()) {}

void ProfiledTuner::start() {
  const std::optional<Known> known = this->known();
  const bool is_known = all_know_the_same(known) && known.has_value();
  if (!failure_.empty()) return;
  if (!is_known) return begin_profiling();
  from_profile_ = true;
  for (std::size_t i = 0; i < known->measurements.size(); ++i) {
    const Measurement& one = known->measurements[i];
    const Joules error = one.energy * kKnownError;
    ledger_.add(known->positions[i], 1, one.time, one.energy, error);
    account_.add_known(known->positions[i], {.steps = 1,
                                             .time = one.time,
                                             .energy = one.energy,
                                             .error = error,
                                             .time_error = one.time * kKnownError});
  }
  const std::size_t setting = known->positions[known->choice];
  set(setting);
  settle(setting, known->measurements[known->choice].time);
}

std::optional<ProfiledTuner::Known> ProfiledTuner::known() const {
  const std::vector<double>& settings = setter_.knob().settings();
  Known known;
  for (const Measurement& one : options_.known) {
    const auto found = std::ranges::find(settings, one.setting);
    if (found == settings.end()) continue;
    known.measurements.push_back(one);
    known.positions.push_back(static_cast<std::size_t>(found - settings.begin()));
  }
  const Result<std::size_t> choice = choose(known.measurements, options_.selector);
  // A slowdown and a saving are against the highest setting: without it, all is measured anew.
  if (!choice.ok() || known.positions.front() != 0) return std::nullopt;
  known.choice = *choice;
  return known;
}

/// Fails the tuning where processes could not set the same.
bool ProfiledTuner::all_know_the_same(const std::optional<Known>& known) {
  const Knob& knob = setter_.knob();
  const std::array<double, 2> offered{static_cast<double>(knob.size()), digest_of(knob)};
  const Result<bool> same_knob = job_.same(!lost_.empty(), offered);
  if (!same_knob.ok() || !*same_knob) {
    failure_ = !same_knob.ok() ? same_knob.error().text()
                               : "the job's processes may not all set the same on their GPUs";
    return false;
  }
  std::array<double, 2> chosen{-1, 0};
  if (known) {
    chosen = {static_cast<double>(known->positions[known->choice]),
              known->measurements[known->choice].time.value};
  }
  const Result<bool> same_choice = job_.same(!lost_.empty(), chosen);
  if (!same_choice.ok()) failure_ = same_choice.error().text();
  return same_choice.ok() && *same_choice;
}

void ProfiledTuner::begin_profiling() {
  ++profilings_;
  choice_.reset();
  has_drifted_ = from_profile_ = false;
  carry_out(profiler_.start(), last_event_);
}

void ProfiledTuner::on(const StepEvent& event) {
  const bool is_step = event.kind == StepEvent::Kind::kStep;
  ++(is_step ? steps_ : epochs_);
  std::optional<Seconds> took;
  if (step_began_) took = event.at - *step_began_;
  const Instant before = std::exchange(last_event_, event.at);
  step_began_ = is_step ? std::optional(event.at) : std::nullopt;
  if (took) usual_step_ = usual_.add(took->value);  // a median: pauses move it little
  if (!failure_.empty()) return;                    // what is in force now is not known
  if (is_step && lost_.empty() && setting_ < setter_.knob().size()) ledger_.count(setting_);
  ended_epoch_ = !is_step;
  if (!are_steps_timed_) return;
  if (took && !is_pause(*took)) account_.step(setting_, *took);
  if (took && choice_) looks_.step();
  if (closed_) return;
  if (choice_) {
    // A pause ends a stretch where the step before it ended.
    if (open_ && took && is_pause(*took)) {
      close(before);
      took.reset();
    }
    return on_settled_step(event, took);
  }
  if (open_ && took) open_->step_times.push_back(took->value);
  const Seconds now = event.at - Instant{};
  carry_out(is_step ? profiler_.on_step_begin(now) : profiler_.on_epoch_end(now), event.at);
}

bool ProfiledTuner::is_pause(Seconds step) const {
  return usual_step_ > 0 && step.value > kPause * usual_step_;
}

void ProfiledTuner::carry_out(const KnobActions& actions, Instant at) {
  for (const KnobAction& action : actions) {
    if (!failure_.empty()) return;
    switch (action.kind) {
      case KnobAction::Kind::kSet:
        set(action.setting);
        break;
      case KnobAction::Kind::kOpenWindow:
        open(at, true);
        break;
      case KnobAction::Kind::kCloseWindow:
        close(at);
        break;
      case KnobAction::Kind::kCancelWindow:
        cancel();
        break;
    }
  }
  if (!profiler_.done() || choice_ || !profiler_.choice()) return;
  profiling_steps_ += profiler_.steps();
  const auto& measured = profiler_.measured()[*profiler_.choice()];
  settle(*profiler_.choice(), measured ? std::optional(measured->time) : std::nullopt);
}

void ProfiledTuner::set(std::size_t setting) {
  if (finished_) return;
  setting_ = setting;
  if (!lost_.empty()) return;
  const Status done = setter_.set(setting);
  if (!done.ok()) fail(done.error());
}

void ProfiledTuner::open(Instant at, bool is_of_profiler) {
  open_ = Window{.begin = at, .is_of_profiler = is_of_profiler};
  if (!lost_.empty()) return;
  const Status begun = meter_.begin(at);
  is_metering_ = begun.ok();
  if (!begun.ok()) fail(begun.error());
}

/// With others, its energy is waited for: what comes next is for all of them to know.
void ProfiledTuner::close(Instant at) {
  if (!open_) return;
  if (open_->step_times.empty() && !open_->is_of_profiler && are_steps_timed_) return cancel();
  open_->end = at;
  closed_ = std::exchange(open_, std::nullopt);
  if (job_.is_alone()) return;
  if (is_metering_) meter_.settle(at);
  take(*std::exchange(closed_, std::nullopt));
}

void ProfiledTuner::cancel() {
  if (std::exchange(is_metering_, false)) meter_.cancel();
  open_.reset();
  closed_.reset();
}

void ProfiledTuner::poll(Instant now) {
  const Instant before = std::exchange(polled_, now);
  if (choice_ && open_ && are_steps_timed_ && now - last_event_ > kLongestSilence)
    close(last_event_);
  if (!are_steps_timed_) measure_untimed(before, now);
  if (is_silent(now)) {
    end_trials("no step was seen for " + shortest(std::round((now - last_event_).value)) +
                   " s while settings were tried",
               true);
  }
  if (!closed_ || !failure_.empty()) return;
  if (!meter_.settled(closed_->end) && now < closed_->end + WindowMeter::kLongestSettling) return;
  take(*std::exchange(closed_, std::nullopt));
}

/// No figures where it could not be measured, and it is measured anew: a reading that failed once
/// may not fail again.
void ProfiledTuner::take(const Window& window) {
  MeteredWindow own{.energy = {std::numeric_limits<double>::quiet_NaN()}, .error = {}};
  if (std::exchange(is_metering_, false)) {
    const Result<MeteredWindow> read = meter_.end(window.end);
    if (read.ok()) own = *read;
    if (!read.ok()) trouble_ = read.error().text();
  }
  const Seconds time = window.end - window.begin;
  const auto& steps = window.step_times;
  if ((!steps.empty() || !are_steps_timed_) && time.value > 0 && own.energy.value > 0) {
    // What the window knows of the mean step: the meter's error, and how steps scatter.
    const MeanWithError step = mean_with_error(steps);
    const double scatter = !are_steps_timed_ ? 0 : steps.size() < 2 ? 1 : step.error / step.mean;
    const Joules error{std::hypot(own.error.value, own.energy.value * scatter)};
    const auto count = static_cast<std::int64_t>(steps.size());
    if (are_steps_timed_) ledger_.add(setting_, count, time, own.energy, error);
    account_.add(setting_, {.steps = are_steps_timed_ ? count : 0,
                            .time = time,
                            .energy = own.energy,
                            .error = error,
                            .time_error = time * scatter});
    if (looks_.under_way()) looks_.add(count);
  }
  if (!window.is_of_profiler || finished_) {
    judge();
    return;
  }
  std::array<double, 1> energy{own.energy.value}, longest{time.value};
  const Status told = job_.exchange(!lost_.empty(), energy, longest);
  if (!told.ok()) return lose(told.error());
  carry_out(profiler_.on_window({longest[0]}, {energy[0]}), window.end);
  judge();
}

void ProfiledTuner::finish() {
  finished_ = true;
  if (!open_) return;
  if (choice_) return close(are_steps_timed_ ? last_event_ : polled_);
  cancel();
}

/// Others must hear of it first: until then, this process only keeps in step with them.
void ProfiledTuner::fail(const Error& error) {
  if (!failure_.empty() || !lost_.empty()) return;
  lost_ = error.text();
  if (job_.is_alone()) return lose(error);
  if (std::exchange(is_metering_, false)) meter_.cancel();
}

/// All processes end alike.
void ProfiledTuner::lose(const Error& error) {
  failure_ = lost_.empty() ? error.text() : lost_;
  cancel();
  // Others' GPUs are slower than they need be otherwise, until the job ends.
  if (!job_.is_alone() && lost_.empty()) (void)setter_.set(0).ok();
}

Watts ProfiledTuner::own_host_power() const {
  return options_.own_host_power.value_or(options_.selector.host_power);
}

TuningResult ProfiledTuner::result() const {
  TuningResult result{.knob = setter_.knob(),
                      .steps = steps_,
                      .epochs = epochs_,
                      .choice = choice_,
                      .decided = choice_.has_value(),
                      .from_profile = from_profile_,
                      .profilings = profilings_,
                      .slowdown = {},
                      .trials_ended = trials_ended_,
                      .costs = ledger_.costs(),
                      .steps_under = ledger_.begun(),
                      .saving = account_.saving(own_host_power()),
                      .measurements = {},
                      .job_saving = job_saving_,
                      .failure = failure_.empty() ? lost_ : failure_};
  for (const auto& one : profiler_.measured()) {
    if (one) result.measurements.push_back(*one);
  }
  if (result.measurements.empty() && !from_profile_ && result.failure.empty()) {
    result.failure = trouble_;
  }
  if (!choice_) result.choice = profiler_.best_so_far();
  if (result.choice) {
    const auto slowdown = account_.slowdown(*result.choice);
    if (slowdown) result.slowdown = slowdown->ratio - 1;
  }
  return result;
}

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

/// Agrees with the other processes: if one has noticed a change, all act on it.
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
    // A look shows whether the highest setting has drifted, too.
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
  // The window counts up to the last step, but not for a trial.
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

void Looks::begin(bool by_earlier_run) {
  steps_ = 0;
  under_way_ = false;
  wait(by_earlier_run ? kFirstByEarlierRun : kFirst);
}

/// Multiples of the golden ratio are spread evenly, however many there are.
double Looks::next_phase() {
  phase_ = std::fmod(phase_ + std::numbers::phi, 1);
  return phase_;
}

void Looks::wait(std::int64_t steps) {
  interval_ = steps;
  due_ = static_cast<std::int64_t>(static_cast<double>(steps) *
                                   (kShortest + (kLongest - kShortest) * next_phase()));
}

void Looks::want() {
  due_ = std::min(due_, steps_ + static_cast<std::int64_t>(kSoon * next_phase()));
}

void Looks::start() {
  under_way_ = true;
  steps_ = measured_ = 0;
}

bool Looks::is_complete() const {
  return !owes_ && (measured_ >= kEnough || steps_ >= kInVain);
}

void Looks::end(bool has_moved) {
  const std::int64_t often = kOften * steps_;
  wait(has_moved ? often : std::clamp(2 * interval_, often, kSeldom * steps_));
  under_way_ = false;
  steps_ = 0;
}

void Looks::owe(const SavingAccount::Delay& delay, double most_slowdown) {
  const double share = owes_ ? kLeaves : kGoesBack;
  owes_ = delay.beyond + delay.deviation > delay.at_highest * ((most_slowdown - 1) * share);
}

}  // namespace harpe
