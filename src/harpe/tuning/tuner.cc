#include "harpe/tuning/tuner.h"

#include <algorithm>
#include <utility>

#include "harpe/tuning/online_tuner.h"
#include "harpe/tuning/profiled_tuner.h"

namespace harpe {
namespace {

// As many steps as half of Zeus's over twelve settings: knobs here have finer steps than Zeus's,
// which the model makes up for.
constexpr double kBudgetSettings = 12;

}  // namespace

Result<std::unique_ptr<Tuner>> Tuner::make(TunerOptions options, KnobSetter& setter,
                                           WindowMeter& meter) {
  const Knob& knob = setter.knob();
  if (options.online) {
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
  ProfilerOptions profiling{.selector = options.selector};
  if (static_cast<double>(knob.size()) > kBudgetSettings) {
    profiling.step_share *= kBudgetSettings / static_cast<double>(knob.size());
  }
  SettingProfiler profiler = HARPE_TRY(SettingProfiler::make(knob, profiling));
  return std::unique_ptr<Tuner>(std::make_unique<ProfiledTuner>(
      std::move(options), profiling, std::move(profiler), setter, meter));
}

}  // namespace harpe
