#include "harpe/zeus/tuning/profiled_tuner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
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

}  // namespace harpe
