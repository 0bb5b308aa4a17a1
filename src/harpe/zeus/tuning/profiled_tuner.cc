#include "harpe/zeus/tuning/profiled_tuner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "harpe/base/possible_energy.h"
#include "harpe/base/text.h"

namespace harpe::zeus {
namespace {

// A window ends before the meter discards the samples of its end.
constexpr Seconds kLongestSilence{100};
// Relative error of an earlier run's figures for the same job.
constexpr double kKnownError = 0.02;

// Steps not measured after a switch: the clock ramps and the limit's controller settles.
constexpr int kSettlingSteps = 10;
// Profiling again must not cost more than it can save: it takes at most a fifth of the steps.
constexpr int kLeastStretch = 4;
// Drift of the step time that is tolerated, as a fraction, plus the resolution of observed times.
constexpr double kDrift = 0.05;
constexpr Seconds kTick{0.005};
// Number of steps whose mean is precise enough to detect 5 % of drift.
constexpr std::int64_t kReferenceSteps = 30;
// Windows of the chosen setting: long enough for energy counters, short enough that the windows
// next to a look are close to it in time.
constexpr std::size_t kWindowSteps = 20;
constexpr Seconds kWindowTime{4};
// Limits of a look. It ends early if its steps scatter little.
constexpr std::size_t kLookSteps = 10, kMostLookSteps = 40;
constexpr Seconds kLookTime{2};
constexpr double kLookPrecision = 0.005;
// The first trials may take this multiple of the extra time that the bound allows so far; later
// steps make up for it.
constexpr double kFirstOverdraft = 2;
// Steps of a look in a job of several processes, which must all end it at the same step.
constexpr std::int64_t kJobLook = 32;
// A trial ends after a silence of this length and of this multiple of the usual step.
constexpr Seconds kSilence{60};
constexpr double kSilentSteps = 20;
constexpr std::int64_t kLeastSteps = 5;  // before the usual step is known
// Longest interval between two meetings of a job's processes: short enough to detect a drift, long
// enough to cost almost nothing. The first intervals are shorter, for short jobs.
constexpr Seconds kMeetingInterval{10};
constexpr std::int64_t kFirstMeeting = 16, kMostBetweenMeetings = 100'000;  // steps

constexpr std::int64_t kFirst = 80, kFirstByEarlierRun = 40;  // steps
// A wanted look is due after at most this number of steps.
constexpr double kSoon = 60;
// Steps between two looks, as a multiple of the steps of a look.
constexpr std::int64_t kOften = 8, kSeldom = 99;
// Range of the factor on the steps between two looks.
constexpr double kShortest = 0.7, kLongest = 1.3;
// Measured steps that complete a look; steps after which it ends without them.
constexpr std::int64_t kEnough = 10, kInVain = 400;
// Shares of the extra time that the bound allows. Above the first a run returns to the highest
// setting; below the second it leaves it. Both are below 1 because times are estimates.
constexpr double kGoesBack = 0.97, kLeaves = 0.9;

/// Measurements of an earlier run at settings of this knob, and the setting that they choose.
struct KnownChoice {
  std::vector<Measurement> measurements = {};
  std::vector<std::size_t> positions = {};  ///< positions of the measurements' settings in the knob
  std::size_t choice = 0;                   ///< index of the measurement chosen
};

std::optional<KnownChoice> known_choice(const std::vector<Measurement>& measurements,
                                        const Knob& knob, const Selector& selector) {
  KnownChoice known;
  for (const Measurement& one : measurements) {
    const auto found = std::ranges::find(knob.settings(), one.setting);
    if (found == knob.settings().end()) continue;
    known.measurements.push_back(one);
    known.positions.push_back(static_cast<std::size_t>(found - knob.settings().begin()));
  }
  const Result<std::size_t> choice = choose(known.measurements, selector);
  // Slowdowns and savings are relative to the highest setting. Without it, all settings are
  // measured again.
  if (!choice.ok() || known.positions.front() != 0) return std::nullopt;
  known.choice = *choice;
  return known;
}

DriftDetector drift_from(Seconds step) {
  return DriftDetector(step, kDrift + kTick / step);
}

bool is_full(const StepWindow& window, Instant now, bool is_of_look) {
  const std::size_t steps = window.step_times.size();
  const Seconds time = now - window.begin;
  if (!is_of_look) return steps >= kWindowSteps && time >= kWindowTime;
  if (steps < kLookSteps || time < kLookTime) return false;
  const MeanWithError step = mean_with_error(window.step_times);
  return steps >= kMostLookSteps || step.error <= kLookPrecision * step.mean;
}

/// Returns nullopt if the window could not be measured. A window is too short if its energy may be
/// 0 within three times its error, or if GPUs cannot have used it in that time: steps that a
/// program writes at once take some microseconds.
std::optional<MeasuredSteps> measured_steps(const StepWindow& window, bool are_steps_timed,
                                            int gpus) {
  const Seconds time = *window.end - window.begin;
  const std::vector<double>& steps = window.step_times;
  const auto& [energy, meter_error] = window.metered;
  if ((steps.empty() && are_steps_timed) || time.value <= 0 || !(energy > 3 * meter_error) ||
      !why_impossible(energy, meter_error, time, kMostGpuPower * std::max(gpus, 1)).empty()) {
    return std::nullopt;
  }
  // The relative errors of the window's mean step: the meter's, and the scatter of the steps.
  const MeanWithError step = mean_with_error(steps);
  const double scatter = !are_steps_timed ? 0 : steps.size() < 2 ? 1 : step.error / step.mean;
  return MeasuredSteps{.steps = are_steps_timed ? static_cast<std::int64_t>(steps.size()) : 0,
                       .time = time,
                       .energy = energy,
                       .error = {std::hypot(meter_error.value, energy.value * scatter)},
                       .time_error = time * scatter};
}

/// Returns the next higher setting, or one farther up if the slowdown exceeds its bound for
/// certain. Assumes that steps become longer in proportion to the setting's position.
std::size_t higher_setting(std::size_t choice, SavingAccount::Slowdown slowdown,
                           double most_slowdown) {
  const double allowed = most_slowdown - 1;
  const double surely = std::max(slowdown.ratio - slowdown.error - 1, allowed);
  const double share = surely > 0 ? allowed / surely : 1;
  return std::min(choice - 1, static_cast<std::size_t>(share * static_cast<double>(choice)));
}

}  // namespace

ProfiledTuner::ProfiledTuner(TunerOptions options, ProfilerOptions profiling,
                             SettingProfiler profiler, KnobSetter& setter, WindowMeter& meter,
                             Peers* peers)
    : options_(std::move(options)),
      profiling_(std::move(profiling)),
      profiler_(std::move(profiler)),
      setter_(setter),
      job_(peers),
      ledger_(setter.knob().size()),
      window_(meter) {
  if (!options_.own_host_power) options_.own_host_power = options_.selector.host_power;
}

void ProfiledTuner::start() {
  const auto known = known_choice(options_.known, setter_.knob(), options_.selector);
  std::array<double, 2> chosen{-1, 0};
  if (known) {
    chosen = {static_cast<double>(known->positions[known->choice]),
              known->measurements[known->choice].time.value};
  }
  const bool is_known = all_agree_on(chosen) && known.has_value();
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

/// Returns true if all processes have this choice. Fails the tuning if their knobs differ.
bool ProfiledTuner::all_agree_on(std::span<const double> choice) {
  const Knob& knob = setter_.knob();
  const std::array<double, 2> offered{static_cast<double>(knob.size()), digest_of(knob)};
  const Result<bool> same_knob = job_.same(offered);
  if (!same_knob.ok() || !*same_knob) {
    failure_ = !same_knob.ok()
                   ? same_knob.error().text()
                   : "the job's processes cannot all use the same settings on their GPUs";
    return false;
  }
  const Result<bool> same_choice = job_.same(choice);
  if (!same_choice.ok()) failure_ = same_choice.error().text();
  return same_choice.ok() && *same_choice;
}

void ProfiledTuner::begin_profiling() {
  ++counts_.profilings;
  choice_.reset();
  has_drifted_ = from_profile_ = false;
  carry_out(profiler_.start(), rhythm_.last_event());
}

void ProfiledTuner::on(const StepEvent& event) {
  const bool is_step = event.kind == StepEvent::Kind::kStep;
  const Instant before = rhythm_.last_event();
  std::optional<Seconds> took = rhythm_.add(event);
  if (!failure_.empty()) return;  // the setting in force is unknown
  if (is_step && !job_.is_lost() && setting_ < setter_.knob().size()) ledger_.count(setting_);
  if (!are_steps_timed_) return;
  const bool is_pause = took && rhythm_.is_pause(*took);
  if (took && !is_pause) account_.step(setting_, *took);
  if (took && choice_) looks_.step();
  if (window_.is_closed()) return;
  // A pause ends a window of the chosen setting at the end of the step before the pause.
  if (choice_ && is_pause && window_.opened() != nullptr) {
    close(before);
    took.reset();
  }
  if (window_.opened() != nullptr && took) window_.opened()->step_times.push_back(took->value);
  if (choice_) return on_settled_step(event, took);
  const Seconds now = event.at - Instant{};
  carry_out(is_step ? profiler_.on_step_begin(now) : profiler_.on_epoch_end(now), event.at);
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
        window_.cancel();
        break;
    }
  }
  if (!profiler_.done() || choice_ || !profiler_.choice()) return;
  counts_.profiling_steps += profiler_.steps();
  const auto& measured = profiler_.measured()[*profiler_.choice()];
  settle(*profiler_.choice(), measured ? std::optional(measured->time) : std::nullopt);
}

void ProfiledTuner::set(std::size_t setting) {
  if (finished_) return;
  setting_ = setting;
  if (job_.is_lost()) return;
  const Status done = setter_.set(setting);
  if (!done.ok()) fail(done.error());
}

void ProfiledTuner::open(Instant at, bool is_of_profiler) {
  const Status begun = window_.open(at, is_of_profiler, !job_.is_lost());
  if (!begun.ok()) fail(begun.error());
}

/// Closes the window. With other processes, also waits for its energy, which all of them use.
void ProfiledTuner::close(Instant at) {
  const StepWindow* window = window_.opened();
  if (window == nullptr) return;
  if (window->step_times.empty() && !window->is_of_profiler && are_steps_timed_) {
    return window_.cancel();
  }
  window_.close(at);
  if (job_.is_alone()) return;
  window_.settle();
  take(window_.take());
}

void ProfiledTuner::poll(Instant now) {
  const Seconds passed = rhythm_.poll(now);
  const Seconds silence = now - rhythm_.last_event();
  if (choice_ && are_steps_timed_ && silence > kLongestSilence) close(rhythm_.last_event());
  if (!are_steps_timed_) measure_untimed(passed, now);
  if (tries() && job_.is_alone() && !finished_ && rhythm_.is_silent())
    end_trials(rhythm_.silence_text(), true);
  if (failure_.empty() && window_.is_settled(now)) take(window_.take());
}

/// Adds the figures of a closed window. A window that could not be measured has none and is
/// measured again, since a failed reading may succeed the next time.
void ProfiledTuner::take(const StepWindow& window) {
  if (const auto measured = measured_steps(window, are_steps_timed_, options_.selector.gpus)) {
    if (are_steps_timed_) {
      ledger_.add(setting_, measured->steps, measured->time, measured->energy, measured->error);
    }
    account_.add(setting_, *measured);
    if (looks_.under_way()) looks_.add(measured->steps);
  }
  if (!window.is_of_profiler || finished_) return judge();
  std::array<double, 1> energy{window.metered.energy.value};
  std::array<double, 1> longest{(*window.end - window.begin).value};
  const Status told = job_.exchange(energy, longest);
  if (!told.ok()) return lose(told.error());
  carry_out(profiler_.on_window({longest[0]}, {energy[0]}), *window.end);
  judge();
}

void ProfiledTuner::finish() {
  finished_ = true;
  if (choice_) return close(are_steps_timed_ ? rhythm_.last_event() : rhythm_.polled());
  if (window_.opened() != nullptr) window_.cancel();
}

/// Fails the tuning. Other processes must learn of the failure first: until then, this process
/// only takes part in exchanges.
void ProfiledTuner::fail(const Error& error) {
  if (!failure_.empty() || job_.is_lost()) return;
  job_.lose(error.text());
  if (job_.is_alone()) return lose(error);
  window_.stop_metering();
}

/// Ends the tuning in all processes.
void ProfiledTuner::lose(const Error& error) {
  failure_ = job_.is_lost() ? job_.why_lost() : error.text();
  window_.cancel();
  // Otherwise the GPUs of this process would stay slower than necessary until the job ends.
  if (!job_.is_alone() && !job_.is_lost()) (void)setter_.set(0).ok();
}

TuningResult ProfiledTuner::result() const {
  TuningResult result{.knob = setter_.knob(),
                      .steps = rhythm_.steps(),
                      .epochs = rhythm_.epochs(),
                      .choice = choice_,
                      .decided = choice_.has_value(),
                      .from_profile = from_profile_,
                      .profilings = counts_.profilings,
                      .slowdown = {},
                      .trials_ended = trials_ended_,
                      .costs = ledger_.costs(),
                      .steps_under = ledger_.begun(),
                      .saving = account_.saving(*options_.own_host_power),
                      .measurements = {},
                      .job_saving = job_saving_,
                      .failure = failure_.empty() ? job_.why_lost() : failure_};
  for (const auto& one : profiler_.measured()) {
    if (one) result.measurements.push_back(*one);
  }
  if (result.measurements.empty() && !from_profile_ && result.failure.empty()) {
    result.failure = window_.trouble();
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
  counts_.settled_steps = 0;
  drift_.reset();
  if (expected) drift_ = drift_from(*expected);
  meetings_.begin(expected);
}

void ProfiledTuner::on_settled_step(const StepEvent& event, std::optional<Seconds> took) {
  if (took) ++counts_.settled_steps;
  if (looks_.under_way()) return on_look_step(event);
  if (took && looks_.steps() > kSettlingSteps) watch(*took);
  is_look_due_ = setting_ != 0 && looks_.is_due();
  if (agree(event) && (has_drifted_ || is_too_slow_ || is_look_due_)) {
    close(event.at);
    if (!window_.is_closed()) leave_setting();
  } else if (event.kind == StepEvent::Kind::kEpochEnd) {
    close(event.at);
  } else {
    measure(event.at);
  }
}

void ProfiledTuner::on_look_step(const StepEvent& event) {
  if (event.kind == StepEvent::Kind::kEpochEnd) {
    close(event.at);
  } else if (job_.is_alone() ? window_.opened() == nullptr && looks_.is_complete()
                             : looks_.steps() >= kJobLook) {
    close(event.at);
    if (window_.is_closed()) return;
    const auto move = account_.last_move(*choice_, *options_.own_host_power);
    looks_.end(move && std::abs(move->log_ratio) > move->error);
    set(*choice_);
  } else {
    measure(event.at);
  }
}

/// Measures the steps after a setting has settled. A process that is alone also ends the windows.
void ProfiledTuner::measure(Instant now) {
  const StepWindow* window = window_.opened();
  if (window != nullptr && job_.is_alone() && is_full(*window, now, looks_.under_way())) {
    close(now);
  } else if (window == nullptr && !window_.is_closed() && looks_.steps() >= kSettlingSteps) {
    open(now, false);
  }
}

/// Called after each window: a look may show that the setting exceeds its bound, and trials may
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
    // The first trials end by the time that they surely took. Later trials, which varying steps
    // may have triggered, end by the time that they may have taken.
    const bool are_first = counts_.profilings == 1;
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

/// Ends profiling and keeps the best setting known.
void ProfiledTuner::stop_profiling() {
  window_.cancel();
  const std::size_t best = profiler_.best_so_far().value_or(0);
  counts_.profiling_steps += profiler_.steps();
  settle(best, std::nullopt);
  set(best);
}

/// Returns true if this process may act on what it noticed: at every event if it is alone,
/// otherwise when the processes have met. If one process has noticed a change, all act on it.
bool ProfiledTuner::agree(const StepEvent& event) {
  if (job_.is_alone()) return true;
  if (event.kind != StepEvent::Kind::kStep || !meetings_.count_step()) return false;
  const Saving own = account_.saving(*options_.own_host_power);
  std::array<double, 3> sums{own.saved.value, own.at_highest.value, std::pow(own.error.value, 2)};
  std::array<double, 3> noticed{has_drifted_ ? 1.0 : 0.0, is_too_slow_ ? 1.0 : 0.0,
                                is_look_due_ ? 1.0 : 0.0};
  const Status met = job_.exchange(sums, noticed);
  if (!met.ok()) {
    lose(met.error());
    return false;
  }
  job_saving_ = Saving{.saved = {sums[0]}, .error = {std::sqrt(sums[2])}, .at_highest = {sums[1]}};
  has_drifted_ = noticed[0] > 0;
  is_too_slow_ = noticed[1] > 0;
  is_look_due_ = noticed[2] > 0;
  return true;
}

void ProfiledTuner::leave_setting() {
  if (has_drifted_) {
    ledger_ = StepLedger(setter_.knob().size());
    profiler_ = SettingProfiler::make(setter_.knob(), profiling_).take();  // succeeded before
    begin_profiling();
  } else if (is_too_slow_) {
    is_too_slow_ = false;
    const auto slowdown = account_.slowdown(*choice_);
    // The processes of a job all raise their settings by the same amount.
    const bool is_next = !slowdown || !job_.is_alone();
    settle(is_next ? *choice_ - 1
                   : higher_setting(*choice_, *slowdown, *options_.selector.most_slowdown),
           std::nullopt);
    set(*choice_);
  } else {
    looks_.start();
    set(0);
  }
}

void ProfiledTuner::watch(Seconds step) {
  if (rhythm_.is_pause(step)) return;
  if (!drift_ && looks_.steps() >= kReferenceSteps) {
    drift_ = drift_from(rhythm_.usual_step());
  } else if (drift_ && drift_->add(step)) {
    has_drifted_ = trials_ended_.empty() && setter_.knob().size() > 1 && !looks_.owes() &&
                   counts_.settled_steps >= kLeastStretch * profiler_.steps() &&
                   rhythm_.steps() >= (kLeastStretch + 1) * counts_.profiling_steps;
    if (has_drifted_) return;
    // A look shows if the highest setting has drifted, too.
    looks_.want();
    drift_.reset();
  }
}

/// Measures the power of the chosen setting if the beginning of steps is unknown.
void ProfiledTuner::measure_untimed(Seconds time, Instant now) {
  if (!failure_.empty() || finished_) return;
  account_.step(setting_, time);
  const StepWindow* window = window_.opened();
  if (window == nullptr && !window_.is_closed()) {
    open(now, false);
  } else if (window != nullptr && now - window->begin >= kWindowTime) {
    close(now);
  }
}

void ProfiledTuner::end_trials(const std::string& why, bool are_steps_timed) {
  if (!job_.is_alone() || !failure_.empty() || job_.is_lost()) return;
  trials_ended_.push_back(why);
  const bool ends_window = tries() || !are_steps_timed;
  // The window counts up to the last step, but not as part of a trial. Without step times, it is
  // unknown which energy belongs to its steps.
  if (StepWindow* window = window_.opened();
      ends_window && are_steps_timed && window != nullptr && !window->step_times.empty()) {
    window->is_of_profiler = false;
    window_.close(rhythm_.last_event());
    take(window_.take());
  }
  if (ends_window) window_.cancel();
  const Seconds silence = rhythm_.end_silence();
  if (!are_steps_timed) account_.step(setting_, silence);
  has_drifted_ = is_too_slow_ = false;
  are_steps_timed_ = are_steps_timed_ && are_steps_timed;
  if (!choice_) stop_profiling();
  // Without step times, only a setting that surely keeps the bound can keep it.
  const bool is_safe = are_steps_timed_ || surely_keeps_bound();
  const std::size_t setting = is_safe ? *choice_ : 0;
  if (setting == setting_ && !looks_.under_way()) return;
  settle(setting, std::nullopt);
  set(setting);
}

std::optional<Seconds> StepRhythm::add(const StepEvent& event) {
  const bool is_step = event.kind == StepEvent::Kind::kStep;
  ++(is_step ? steps_ : epochs_);
  std::optional<Seconds> took;
  if (step_began_) took = event.at - *step_began_;
  last_event_ = event.at;
  step_began_ = is_step ? std::optional(event.at) : std::nullopt;
  if (took) usual_step_ = usual_.add(took->value);
  return took;
}

Seconds StepRhythm::poll(Instant now) {
  if (!polled_ && steps_ + epochs_ == 0) last_event_ = now;
  return now - std::exchange(polled_, now).value_or(now);
}

Seconds StepRhythm::end_silence() {
  return polled() - std::exchange(last_event_, polled());
}

bool StepRhythm::is_silent() const {
  const Seconds silence = polled() - last_event_;
  return step_began_ && steps_ >= kLeastSteps && silence > kSilence &&
         silence.value > kSilentSteps * usual_step_;
}

std::string StepRhythm::silence_text() const {
  return "no step was seen for " + shortest(std::round((polled() - last_event_).value)) +
         " s while settings were tried";
}

Status WindowRecorder::open(Instant at, bool is_of_profiler, bool is_metered) {
  window_ = StepWindow{.begin = at, .is_of_profiler = is_of_profiler};
  if (!is_metered) return ok_status();
  Status begun = meter_.begin(at);
  is_metering_ = begun.ok();
  return begun;
}

void WindowRecorder::settle() {
  if (is_metering_) meter_.settle(*window_->end);
}

bool WindowRecorder::is_settled(Instant now) const {
  return is_closed() &&
         (meter_.settled(*window_->end) || now >= *window_->end + WindowMeter::kLongestSettling);
}

StepWindow WindowRecorder::take() {
  StepWindow window = *std::exchange(window_, std::nullopt);
  window.metered.energy = {std::numeric_limits<double>::quiet_NaN()};
  if (std::exchange(is_metering_, false)) {
    const Result<MeteredWindow> read = meter_.end(*window.end);
    if (read.ok()) window.metered = *read;
    if (!read.ok()) trouble_ = read.error().text();
  }
  return window;
}

void WindowRecorder::cancel() {
  stop_metering();
  window_.reset();
}

void WindowRecorder::stop_metering() {
  if (std::exchange(is_metering_, false)) meter_.cancel();
}

void Meetings::begin(std::optional<Seconds> step) {
  if (step) {
    most_between_ = static_cast<std::int64_t>(
        std::min(std::ceil(kMeetingInterval / *step), static_cast<double>(kMostBetweenMeetings)));
  }
  between_ = until_next_ = kFirstMeeting;
}

bool Meetings::count_step() {
  if (--until_next_ > 0) return false;
  until_next_ = between_ = std::max(kFirstMeeting, std::min(2 * between_, most_between_));
  return true;
}

void Looks::begin(bool by_earlier_run) {
  steps_ = 0;
  under_way_ = false;
  wait(by_earlier_run ? kFirstByEarlierRun : kFirst);
}

/// Returns a phase in [0, 1): multiples of the golden ratio spread evenly, for any number of them.
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

}  // namespace harpe::zeus
