#include "harpe/zeus/tuning/tuner.h"

#include <algorithm>
#include <utility>

#include "harpe/zeus/tuning/online_tuner.h"
#include "harpe/zeus/tuning/profiled_tuner.h"

namespace harpe {
namespace {

// As many steps as half of Zeus's over twelve settings: knobs here have finer steps than Zeus's,
// which the model makes up for.
constexpr double kBudgetSettings = 12;
// Of a window of a job of several processes, which would have to agree on an end by its scatter:
// as many as those that are right for a scatter of 2 to 3 %.
constexpr int kJobWindow = 22;
// Of the mean step in such a window, for steps that scatter by 1 %.
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

}  // namespace harpe
