#include "harpe/zeus/tuning/tuning_run.h"

#include <chrono>
#include <thread>

#include "harpe/base/mutex.h"

namespace harpe::zeus {
namespace {

constexpr std::chrono::milliseconds kLook(5);

}  // namespace

void finish_tuning(Tuner& tuner, KnobSetter& setter, Clock& clock) {
  tuner.finish();
  while (tuner.waits()) {
    std::this_thread::sleep_for(kLook);
    tuner.poll(clock.now());
  }
  const Status restored = setter.restore();
  // An ended lease has already restored everything.
  if (!restored.ok() && restored.error().code != ErrorCode::kNotFound) tuner.fail(restored.error());
}

struct TuningRun::State {
  State(StepFile& steps_of_job, Tuner& its_tuner, KnobSetter& its_setter, Clock& time)
      : steps(steps_of_job), tuner(its_tuner), setter(its_setter), clock(time) {}

  void look() {
    const Instant now = clock.now();
    const std::vector<StepEvent> events = steps.poll(now);
    // Before the events: the steps of a burst must not be measured.
    if (const auto trouble = steps.take_trouble()) {
      tuner.end_trials(trouble->what, trouble->are_steps_timed);
    }
    for (const StepEvent& event : events) tuner.on(event);
    tuner.poll(now);
    const Status kept = setter.keep(now);
    if (!kept.ok()) tuner.fail(kept.error());
  }

  void run() {
    while (!has_ended()) look();
    look();
    finish_tuning(tuner, setter, clock);
  }

  /// Returns true if the run has ended. Waits for 5 ms at most.
  bool has_ended() {
    MutexLock lock(mutex);
    return changed.wait_for(mutex, kLook, [this]() HARPE_REQUIRES(mutex) { return ended; });
  }

  StepFile& steps;
  Tuner& tuner;
  KnobSetter& setter;
  Clock& clock;
  Mutex mutex;
  CondVar changed;
  bool ended HARPE_GUARDED_BY(mutex) = false;
  std::thread thread;
};

TuningRun::TuningRun(StepFile& steps, Tuner& tuner, KnobSetter& setter, Clock& clock)
    : state_(std::make_unique<State>(steps, tuner, setter, clock)) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

TuningRun::~TuningRun() {
  finish();
}

void TuningRun::finish() {
  if (!state_->thread.joinable()) return;
  {
    const MutexLock lock(state_->mutex);
    state_->ended = true;
    state_->changed.notify_all();
  }
  state_->thread.join();
}

}  // namespace harpe::zeus
