#include "harpe/zeus/tuning/tuner.h"

#include <cmath>
#include <limits>

#include "harpe/base/statistics.h"
#include "harpe/zeus/tuning/profiled_tuner.h"

namespace harpe::zeus {
namespace {

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
