#include "harpe/zeus/tuning/online_tuner.h"

#include <limits>
#include <utility>

namespace harpe {
namespace {

// A step so many times the usual is a pause, such as a validation.
constexpr double kPauseOverUsual = 5;

}  // namespace

OnlineTuner::OnlineTuner(TunerOptions options, OnlineOptimizer optimizer, KnobSetter& setter,
                         WindowMeter& meter)
    : options_(std::move(options)),
      optimizer_(std::move(optimizer)),
      setter_(setter),
      meter_(meter),
      ledger_(setter.knob().size()) {}

void OnlineTuner::on(const StepEvent& event) {
  const bool is_step = event.kind == StepEvent::Kind::kStep;
  ++(is_step ? steps_ : epochs_);
  if (!failure_.empty()) return;
  end_step(event.at);
  if (!is_step || setter_.knob().size() == 0) return;
  if (trials_ended_.empty()) set(optimizer_.next(std::exchange(last_, std::nullopt)));
  if (!failure_.empty()) return;
  ledger_.count(setting_);
  const Status begun = meter_.begin(event.at);
  if (!begun.ok()) return fail(begun.error());
  step_began_ = event.at;
}

void OnlineTuner::set(std::size_t setting) {
  if (setting == setting_) return;
  const Status done = setter_.set(setting);
  if (!done.ok()) return fail(done.error());
  setting_ = setting;
  since_switch_ = 0;
}

void OnlineTuner::end_step(Instant at) {
  if (!step_began_) return;
  const Seconds time = at - *std::exchange(step_began_, std::nullopt);
  const bool is_pause = time.value > kPauseOverUsual * usual_.add(time.value);
  if (!is_pause) account_.step(setting_, time);
  const Result<MeteredWindow> metered = meter_.end(at);
  last_ = Measurement{.setting = setter_.knob()[setting_],
                      .time = time,
                      .energy = {std::numeric_limits<double>::quiet_NaN()}};
  if (!metered.ok() || is_pause) return;  // such a step teaches nothing
  last_->energy = metered->energy;
  // Steps right after a switch belong to two settings.
  if (since_switch_++ < OnlineOptions{}.settle_steps) return;
  if (!(metered->energy.value > 0) || !(time.value > 0)) return;
  ledger_.add(setting_, 1, time, metered->energy, metered->error);
  account_.add(setting_,
               {.steps = 1, .time = time, .energy = metered->energy, .error = metered->error});
}

void OnlineTuner::finish() {
  // The last step's end is not known: it may be long before the program's.
  if (step_began_) meter_.cancel();
  step_began_.reset();
}

void OnlineTuner::end_trials(const std::string& why, bool are_steps_timed) {
  if (!failure_.empty()) return;
  if (trials_ended_.empty()) set(optimizer_.best());
  trials_ended_.push_back(why);
  // Steps that are not timed have no energy of their own.
  if (!are_steps_timed && failure_.empty()) fail(Error::of(ErrorCode::kUnavailable, why));
}

void OnlineTuner::fail(const Error& error) {
  if (!failure_.empty()) return;
  failure_ = error.text();
  finish();
}

TuningResult OnlineTuner::result() const {
  TuningResult result{.knob = setter_.knob(),
                      .steps = steps_,
                      .epochs = epochs_,
                      .choice = std::nullopt,
                      .costs = ledger_.costs(),
                      .steps_under = ledger_.begun(),
                      .saving = account_.saving(options_.selector.host_power),
                      .measurements = {},
                      .job_saving = std::nullopt,
                      .failure = failure_};
  for (std::size_t i = 0; i < result.costs.size(); ++i) {
    const StepCost& cost = result.costs[i];
    if (cost.steps == 0) continue;
    result.measurements.push_back({result.knob[i], cost.time, cost.energy});
    result.choice = optimizer_.best();
  }
  result.decided = result.choice.has_value();
  result.trials_ended = trials_ended_;
  if (result.choice) {
    const auto slowdown = account_.slowdown(*result.choice);
    if (slowdown) result.slowdown = slowdown->ratio - 1;
  }
  return result;
}

}  // namespace harpe
