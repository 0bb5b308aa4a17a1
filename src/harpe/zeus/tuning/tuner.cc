#include "harpe/zeus/tuning/tuner.h"

#include <cmath>
#include <limits>

#include "harpe/base/statistics.h"
#include "harpe/zeus/tuning/profiled_tuner.h"

namespace harpe::zeus {
namespace {

// A step longer than this multiple of the usual step is a pause, such as a validation.
constexpr double kPauseOverUsual = 5;

/// The tuner without a profiling phase (tuner.h): each step is a window.
class OnlineTuner final : public Tuner {
 public:
  OnlineTuner(TunerOptions options, OnlineOptimizer optimizer, KnobSetter& setter,
              WindowMeter& meter)
      : options_(std::move(options)),
        optimizer_(std::move(optimizer)),
        setter_(setter),
        meter_(meter),
        ledger_(setter.knob().size()) {}

  void start() override {}

  void on(const StepEvent& event) override {
    rhythm_.add(event);
    if (!failure_.empty()) return;
    end_step(event.at);
    if (event.kind != StepEvent::Kind::kStep || setter_.knob().size() == 0) return;
    if (trials_ended_.empty()) set(optimizer_.next(std::exchange(last_, std::nullopt)));
    if (!failure_.empty()) return;
    ledger_.count(setting_);
    const Status begun = meter_.begin(event.at);
    if (!begun.ok()) return fail(begun.error());
    step_began_ = event.at;
  }

  void poll(Instant now) override {
    rhythm_.poll(now);
    if (profiles() && rhythm_.is_silent()) end_trials(rhythm_.silence_text(), true);
  }

  void finish() override {
    // The end of the last step is unknown: it may be long before the program's.
    if (step_began_) meter_.cancel();
    step_began_.reset();
  }

  bool waits() const override { return false; }
  bool profiles() const override { return failure_.empty() && trials_ended_.empty(); }

  void end_trials(const std::string& why, bool are_steps_timed) override {
    if (!failure_.empty()) return;
    if (trials_ended_.empty()) set(optimizer_.best());
    trials_ended_.push_back(why);
    // Steps that are not timed have no energy of their own.
    if (!are_steps_timed && failure_.empty()) fail(Error::of(ErrorCode::kUnavailable, why));
  }

  void fail(const Error& error) override {
    if (!failure_.empty()) return;
    failure_ = error.text();
    finish();
  }

  TuningResult result() const override {
    TuningResult result{.knob = setter_.knob(),
                        .steps = rhythm_.steps(),
                        .epochs = rhythm_.epochs(),
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

 private:
  void end_step(Instant at) {
    if (!step_began_) return;
    const Seconds time = at - *std::exchange(step_began_, std::nullopt);
    const bool is_pause = time.value > kPauseOverUsual * usual_.add(time.value);
    if (!is_pause) account_.step(setting_, time);
    const Result<MeteredWindow> metered = meter_.end(at);
    last_ = Measurement{.setting = setter_.knob()[setting_],
                        .time = time,
                        .energy = {std::numeric_limits<double>::quiet_NaN()}};
    if (!metered.ok() || is_pause) return;  // a step without information
    last_->energy = metered->energy;
    // Steps right after a switch belong to two settings.
    if (since_switch_++ < OnlineOptions{}.settle_steps) return;
    if (!(metered->energy.value > 0) || !(time.value > 0)) return;
    ledger_.add(setting_, 1, time, metered->energy, metered->error);
    account_.add(setting_,
                 {.steps = 1, .time = time, .energy = metered->energy, .error = metered->error});
  }

  void set(std::size_t setting) {
    if (setting == setting_) return;
    const Status done = setter_.set(setting);
    if (!done.ok()) return fail(done.error());
    setting_ = setting;
    since_switch_ = 0;
  }

  TunerOptions options_;
  OnlineOptimizer optimizer_;
  KnobSetter& setter_;
  WindowMeter& meter_;
  StepLedger ledger_;
  SavingAccount account_;
  StepRhythm rhythm_;
  RunningMedian usual_;
  std::size_t setting_ = 0;
  int since_switch_ = 0;               ///< steps
  std::optional<Instant> step_began_;  ///< nullopt if no window is open
  std::optional<Measurement> last_;    ///< the last step, if the optimizer has not used it yet
  std::string failure_;
  std::vector<std::string> trials_ended_;
};

// The steps are half of Zeus's over twelve settings: knobs have finer steps here than in Zeus, and
// the model fills in between.
constexpr double kBudgetSettings = 12;
// Steps of a window if a job has several processes, which cannot end a window by its own scatter:
// the number suits a scatter of 2 to 3 %.
constexpr int kJobWindow = 22;
// Relative error of the mean step in such a window, if steps scatter by 1 %.
constexpr double kJobTimeError = 0.005;

}  // namespace

Result<std::unique_ptr<Tuner>> Tuner::make(TunerOptions options, KnobSetter& setter,
                                           WindowMeter& meter, Peers* peers) {
  const Knob& knob = setter.knob();
  if (options.online) {
    if (peers != nullptr) {
      return Error::of(ErrorCode::kNotSupported,
                       "a job of several processes cannot be tuned online");
    }
    OnlineOptions online{.selector = options.selector,
                         .slowdown = options.selector.most_slowdown
                                         ? *options.selector.most_slowdown - 1
                                         : options.online_slowdown};
    if (knob.kind() == KnobKind::kGraphicsClock && knob.can_choose()) {
      online.worst_slowdown = knob[0] / knob[knob.size() - 1];
    }
    OnlineOptimizer optimizer = HARPE_TRY(OnlineOptimizer::make(knob, online));
    return std::unique_ptr<Tuner>(
        std::make_unique<OnlineTuner>(std::move(options), std::move(optimizer), setter, meter));
  }
  ProfilerOptions profiling{.selector = options.selector, .cautious = true};
  if (static_cast<double>(knob.size()) > kBudgetSettings) {
    profiling.step_share *= kBudgetSettings / static_cast<double>(knob.size());
  }
  if (peers == nullptr) {
    profiling.others = options.others;
    profiling.batch_size = options.batch_size;
  }
  if (peers != nullptr) {
    profiling.min_steps = profiling.max_steps = kJobWindow;
    profiling.time_error = kJobTimeError;
  }
  SettingProfiler profiler = HARPE_TRY(SettingProfiler::make(knob, profiling));
  return std::unique_ptr<Tuner>(std::make_unique<ProfiledTuner>(
      std::move(options), profiling, std::move(profiler), setter, meter, peers));
}

void StepLedger::add(std::size_t setting, std::int64_t steps, Seconds time, Joules energy,
                     Joules error) {
  Row& row = rows_[setting];
  row.measured += steps;
  row.seconds += time.value;
  row.joules += energy.value;
  row.variance += error.value * error.value;
}

std::vector<StepCost> StepLedger::costs() const {
  std::vector<StepCost> costs(rows_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    if (row.measured == 0) continue;
    const auto steps = static_cast<double>(row.measured);
    costs[i] = {.steps = row.measured,
                .time = {row.seconds / steps},
                .energy = {row.joules / steps},
                .error = {std::sqrt(row.variance) / steps}};
  }
  return costs;
}

std::vector<std::int64_t> StepLedger::begun() const {
  std::vector<std::int64_t> begun;
  for (const Row& row : rows_) begun.push_back(row.begun);
  return begun;
}

}  // namespace harpe::zeus
