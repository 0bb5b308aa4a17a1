#include "harpe/zeus/power_limit/limit_replay.h"

#include <algorithm>

namespace harpe {
namespace {

/// What a number of steps takes under a setting.
Measurement recorded(const RecordedRun& run, std::size_t setting, std::int64_t steps) {
  Measurement one = run.measurements[setting];
  const double share = static_cast<double>(steps) / kRecordedSteps;
  one.time = one.time * share;
  one.energy = one.energy * share;
  return one;
}

/// Carries out the actions of an optimizer in simulated steps.
template <class Optimizer>
class ReplayLoop {
 public:
  ReplayLoop(const RecordedRun& run, Optimizer& optimizer) : run_(run), optimizer_(optimizer) {}

  /// Nothing is done before or after the step, at its beginning or end.
  void carry_out(const KnobActions& actions, std::int64_t step, std::int64_t begun) {
    for (const KnobAction& action : actions) {
      switch (action.kind) {
        case KnobAction::Kind::kSet:
          setting_ = action.setting;
          replay_.set_calls.push_back({step, action.setting});
          break;
        case KnobAction::Kind::kOpenWindow:
          opened_ = begun;
          break;
        case KnobAction::Kind::kCloseWindow: {
          const Measurement took = recorded(run_, setting_, begun - opened_);
          carry_out(optimizer_.on_window(took.time, took.energy), step, begun);
          break;
        }
        case KnobAction::Kind::kCancelWindow:
          break;
      }
    }
  }

  /// `begin` and `end` tell the optimizer of a step and an epoch.
  template <class Begin, class End>
  ProfilingReplay run(int steps_per_epoch, std::int64_t most, Begin begin, End end) {
    carry_out(optimizer_.start(), 0, 0);
    std::int64_t step = 0;
    while (!optimizer_.done() && step < most) {
      ++step;
      carry_out(begin(now_), step, step);
      now_ += recorded(run_, setting_, 1).time;
      if (optimizer_.done()) break;
      if (steps_per_epoch > 0 && step % steps_per_epoch == 0) {
        carry_out(end(now_), step, step + 1);
      }
    }
    replay_.choice = optimizer_.choice();
    replay_.done_step = step;
    return std::move(replay_);
  }

 private:
  const RecordedRun& run_;
  Optimizer& optimizer_;
  ProfilingReplay replay_;
  std::size_t setting_ = 0;
  std::int64_t opened_ = 0;  ///< first step of the window
  Seconds now_{};
};

/// More steps than any optimizer needs: each epoch finishes a setting, or windows outlast epochs.
std::int64_t most_steps(const RecordedRun& run, std::int64_t a_setting, int steps_per_epoch) {
  return (static_cast<std::int64_t>(run.knob.size()) + 3) * (a_setting + steps_per_epoch + 2);
}

}  // namespace

Result<ProfilingReplay> replay_zeus(const RecordedRun& run, const ZeusOptions& options,
                                    int steps_per_epoch) {
  ZeusOptimizer optimizer = HARPE_TRY(ZeusOptimizer::make(run.knob, options));
  const std::int64_t a_setting =
      std::int64_t{options.wait_steps} + options.warmup_steps + options.profile_steps;
  ReplayLoop loop(run, optimizer);
  ProfilingReplay replay = loop.run(
      steps_per_epoch, most_steps(run, a_setting, steps_per_epoch),
      [&](Seconds) { return optimizer.on_step_begin(); },
      [&](Seconds) { return optimizer.on_epoch_end(); });
  for (std::size_t i = 0; i < optimizer.measurements().size(); ++i) replay.order.push_back(i);
  return replay;
}

Result<ProfilingReplay> replay_profiler(const RecordedRun& run, ProfilerOptions options,
                                        int window_steps, int steps_per_epoch) {
  options.min_steps = options.max_steps = window_steps;
  SettingProfiler optimizer = HARPE_TRY(SettingProfiler::make(run.knob, options));
  ReplayLoop loop(run, optimizer);
  ProfilingReplay replay = loop.run(
      steps_per_epoch,
      most_steps(run, std::int64_t{options.warmup_steps} + window_steps, steps_per_epoch),
      [&](Seconds now) { return optimizer.on_step_begin(now); },
      [&](Seconds now) { return optimizer.on_epoch_end(now); });
  replay.order = optimizer.order();
  return replay;
}

RunTotals totals_of(const RecordedRun& run, const std::vector<SetCall>& set_calls,
                    std::int64_t steps) {
  RunTotals totals;
  for (std::size_t i = 0; i < set_calls.size(); ++i) {
    const std::int64_t first = std::max<std::int64_t>(set_calls[i].step, 1);
    const std::int64_t next =
        i + 1 < set_calls.size() ? std::max<std::int64_t>(set_calls[i + 1].step, 1) : steps + 1;
    const std::int64_t count = std::min(next, steps + 1) - first;
    if (count <= 0) continue;
    const Measurement took = recorded(run, set_calls[i].setting, count);
    totals.time += took.time;
    totals.energy += took.energy;
  }
  return totals;
}

Result<OnlineReplay> replay_online(const RecordedRun& run, const OnlineOptions& options,
                                   std::int64_t steps) {
  OnlineOptimizer optimizer = HARPE_TRY(OnlineOptimizer::make(run.knob, options));
  OnlineReplay replay;
  const Seconds highest = recorded(run, 0, 1).time;
  std::optional<Measurement> last;
  for (std::int64_t step = 1; step <= steps; ++step) {
    replay.last = optimizer.next(last);
    last = recorded(run, replay.last, 1);
    replay.totals.time += last->time;
    replay.totals.energy += last->energy;
    const double slowdown = replay.totals.time / (highest * static_cast<double>(step)) - 1;
    replay.worst_slowdown = std::max(replay.worst_slowdown, slowdown);
  }
  replay.switches = optimizer.switches();
  return replay;
}

}  // namespace harpe
