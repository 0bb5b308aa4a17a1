#include "harpe/tuning/profiled_tuner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace harpe {
namespace {

// Counters that step more seldom than usual are taken as they stand.
constexpr Seconds kLongestSettling{1};
// A window must end before the samples of its end are forgotten.
constexpr Seconds kLongestSilence{100};
// As after a switch while profiling: the clock ramps, the limit's controller settles.
constexpr int kSettlingSteps = 10;
// A step so many times the usual is none: a validation, a checkpoint.
constexpr double kPause = 5;
// Profiling again must not cost more than it can bring: at most a fifth of the time.
constexpr int kLeastStretch = 4;
// How far an earlier run's figures may be off this one's, where both are the same job.
constexpr double kKnownError = 0.02;
// The fraction by which steps may stray, and by which they seem to, seen in ticks of a look.
constexpr double kDrift = 0.05;
constexpr Seconds kTick{0.005};
// Steps of which the mean is known well enough to see 5 % of drift.
constexpr std::int64_t kReferenceSteps = 30;
// Fewer steps than these say no more than those of a profiler's window.
constexpr std::size_t kLeastJudged = 64;

Seconds time_of(Instant at) {
  return at - Instant{};
}

}  // namespace

ProfiledTuner::ProfiledTuner(TunerOptions options, ProfilerOptions profiling,
                             SettingProfiler profiler, KnobSetter& setter, WindowMeter& meter)
    : options_(std::move(options)),
      profiling_(profiling),
      profiler_(std::move(profiler)),
      setter_(setter),
      meter_(meter),
      ledger_(setter.knob().size()) {}

void ProfiledTuner::start() {
  const Knob& knob = setter_.knob();
  std::vector<Measurement> usable;
  std::vector<std::size_t> position;
  for (const Measurement& one : options_.known) {
    const auto found = std::ranges::find(knob.settings(), one.setting);
    if (found == knob.settings().end()) continue;
    usable.push_back(one);
    position.push_back(static_cast<std::size_t>(found - knob.settings().begin()));
  }
  const Result<std::size_t> known = choose(usable, options_.selector);
  // A slowdown and a saving are against the highest setting: without it, all is measured anew.
  if (!known.ok() || position.front() != 0) return begin_profiling();
  from_profile_ = true;
  for (std::size_t i = 0; i < usable.size(); ++i) {
    const Measurement& one = usable[i];
    ledger_.add(position[i], 1, one.time, one.energy, one.energy * kKnownError);
  }
  set(position[*known]);
  settle(position[*known], usable[*known].time);
}

void ProfiledTuner::begin_profiling() {
  ++profilings_;
  choice_.reset();
  has_drifted_ = from_profile_ = false;
  carry_out(profiler_.start(), last_event_);
}

void ProfiledTuner::settle(std::size_t setting, std::optional<Seconds> expected) {
  choice_ = setting;
  settled_steps_ = 0;
  drift_.reset();
  if (expected) expect(*expected);
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
  if (is_step && setting_ < setter_.knob().size()) ledger_.count(setting_);
  if (closed_) return;
  if (choice_) {
    // A pause ends a stretch where the step before it ended.
    if (open_ && took && is_pause(*took)) return close(before);
    return on_settled_step(event, took);
  }
  if (open_ && took) open_->step_times.push_back(took->value);
  const Seconds now = time_of(event.at);
  carry_out(is_step ? profiler_.on_step_begin(now) : profiler_.on_epoch_end(now), event.at);
}

void ProfiledTuner::on_settled_step(const StepEvent& event, std::optional<Seconds> took) {
  if (took) {
    ++settled_steps_;
    if (open_) open_->step_times.push_back(took->value);
    if (settled_steps_ > kSettlingSteps) watch(*took);
  }
  if (has_drifted_ && !open_) {
    const Saving now = ledger_.saving(options_.selector.host_power);
    saved_before_.saved += now.saved;
    saved_before_.at_highest += now.at_highest;
    saved_before_.error = {std::hypot(saved_before_.error.value, now.error.value)};
    ledger_ = StepLedger(setter_.knob().size());
    profiler_ = SettingProfiler::make(setter_.knob(), profiling_).take();  // as it was made before
    return begin_profiling();
  }
  if (is_too_slow_ && !open_) {
    is_too_slow_ = false;
    set(setting_ - 1);
    return settle(setting_, std::nullopt);
  }
  is_too_slow_ = is_too_slow_ || breaks_promise();
  if (event.kind == StepEvent::Kind::kEpochEnd || has_drifted_ || is_too_slow_) {
    if (open_) close(event.at);
  } else if (!open_ && settled_steps_ >= kSettlingSteps) {
    open(event.at, false);
  }
}

void ProfiledTuner::expect(Seconds step) {
  drift_.emplace(step, kDrift + kTick / step);
}

void ProfiledTuner::watch(Seconds step) {
  if (is_pause(step)) return;
  if (!drift_ && settled_steps_ >= kReferenceSteps) {
    expect({usual_step_});
  } else if (drift_ && drift_->add(step)) {
    has_drifted_ = settled_steps_ >= std::int64_t{kLeastStretch} * profiler_.steps() &&
                   setter_.knob().size() > 1;
  }
}

/// A window of some tens of steps may have said that a setting keeps its bound, and hundreds say
/// that it does not. Asked at 64, 128, ... steps of a stretch.
bool ProfiledTuner::breaks_promise() const {
  if (!open_ || !options_.selector.most_slowdown || setting_ == 0) return false;
  const std::size_t count = open_->step_times.size();
  if (count < kLeastJudged || !std::has_single_bit(count)) return false;
  const StepCost highest = ledger_.costs()[0];
  const MeanWithError step = mean_with_error(open_->step_times);
  return highest.steps > 0 &&
         step.mean - step.error > *options_.selector.most_slowdown * highest.time.value;
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
  const auto& measured = profiler_.measured()[*profiler_.choice()];
  settle(*profiler_.choice(), measured ? std::optional(measured->time) : std::nullopt);
}

void ProfiledTuner::set(std::size_t setting) {
  if (finished_) return;
  const Status done = setter_.set(setting);
  if (!done.ok()) return fail(done.error());
  setting_ = setting;
}

void ProfiledTuner::open(Instant at, bool is_of_profiler) {
  const Status begun = meter_.begin(at);
  if (!begun.ok()) return fail(begun.error());
  open_ = Window{.begin = at, .is_of_profiler = is_of_profiler};
}

void ProfiledTuner::close(Instant at) {
  if (!open_) return;
  if (open_->step_times.empty() && !open_->is_of_profiler) return cancel();
  open_->end = at;
  closed_ = std::exchange(open_, std::nullopt);
}

void ProfiledTuner::cancel() {
  if (open_ || closed_) meter_.cancel();
  open_.reset();
  closed_.reset();
}

void ProfiledTuner::poll(Instant now) {
  if (choice_ && open_ && now - last_event_ > kLongestSilence) close(last_event_);
  if (!closed_ || !failure_.empty()) return;
  if (!meter_.settled(closed_->end) && now < closed_->end + kLongestSettling) return;
  const Window window = *std::exchange(closed_, std::nullopt);
  const Result<MeteredWindow> metered = meter_.end(window.end);
  if (metered.ok()) return take(window, *metered);
  // A reading that failed once may not fail again: no figures, and the window is measured anew.
  trouble_ = metered.error().text();
  take(window, {.energy = {std::numeric_limits<double>::quiet_NaN()}, .error = {}});
}

void ProfiledTuner::take(const Window& window, const MeteredWindow& metered) {
  const Seconds time = window.end - window.begin;
  const auto& steps = window.step_times;
  if (!steps.empty() && metered.energy.value > 0) {
    // What the window knows of the mean step: the meter's error, and how steps scatter.
    const MeanWithError step = mean_with_error(steps);
    const double scatter = steps.size() < 2 ? 1 : step.error / step.mean;
    const Joules error{std::hypot(metered.error.value, metered.energy.value * scatter)};
    ledger_.add(setting_, static_cast<std::int64_t>(steps.size()), time, metered.energy, error);
  }
  if (window.is_of_profiler && !finished_) {
    carry_out(profiler_.on_window(time, metered.energy), window.end);
  }
}

void ProfiledTuner::finish() {
  finished_ = true;
  if (!open_) return;
  if (choice_) return close(last_event_);
  cancel();
}

void ProfiledTuner::fail(const Error& error) {
  if (!failure_.empty()) return;
  failure_ = error.text();
  cancel();
}

TuningResult ProfiledTuner::result() const {
  TuningResult result{.knob = setter_.knob(),
                      .steps = steps_,
                      .epochs = epochs_,
                      .choice = choice_,
                      .decided = choice_.has_value(),
                      .from_profile = from_profile_,
                      .profilings = profilings_,
                      .costs = ledger_.costs(),
                      .steps_under = ledger_.begun(),
                      .saving = ledger_.saving(options_.selector.host_power),
                      .measurements = {},
                      .failure = failure_};
  result.saving.saved += saved_before_.saved;
  result.saving.at_highest += saved_before_.at_highest;
  result.saving.error = {std::hypot(result.saving.error.value, saved_before_.error.value)};
  std::vector<std::size_t> position;
  for (std::size_t i = 0; i < profiler_.measured().size(); ++i) {
    if (!profiler_.measured()[i]) continue;
    result.measurements.push_back(*profiler_.measured()[i]);
    position.push_back(i);
  }
  if (result.measurements.empty() && !from_profile_ && failure_.empty()) result.failure = trouble_;
  if (!choice_ && !result.measurements.empty()) {
    const Result<std::size_t> best = choose(result.measurements, options_.selector);
    if (best.ok()) result.choice = position[*best];
  }
  return result;
}

}  // namespace harpe
