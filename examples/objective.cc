// Plans for an objective before anything is measured: the profile comes from a model of a GPU, with
// a second kernel schedule for each clock; the pipeline has transfers and an optimizer, and the
// plan is replayed with settings that change late.
//
//   objective ['{"slowdown": 0.05}']

#include "harpe/plan/objective/objective.h"

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/device/gpu_model/gpu_model.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/frontier/predict.h"
#include "harpe/plan/instruction/instruction.h"
#include "harpe/plan/instruction/knobs.h"
#include "harpe/plan/instruction/setting.h"
#include "harpe/plan/policy/plan_for.h"
#include "harpe/plan/profile/check.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/profile/synth.h"
#include "harpe/plan/schedule/fixed_times.h"
#include "harpe/plan/schedule/pipeline.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/plan/schedule/transfers.h"

namespace {

using harpe::operator""_s;

constexpr int kStages = 4;

harpe::Result<harpe::Profile> make_profile(const harpe::GpuModel& gpu) {
  harpe::Profile profile = HARPE_TRY(harpe::synthesize({.gpu = gpu.name, .stages = kStages}));
  const auto check = harpe::check_profile(profile, {.blocking_power = {gpu.blocking_power}});
  for (const harpe::InstructionCheck& one : check.instructions) {
    for (const std::string& remark : one.suspicious) {
      std::printf("stage %d, %s: %s\n", one.stage, std::string(harpe::name(one.kind)).c_str(),
                  remark.c_str());
    }
  }
  return profile;
}

/// Returns the profile with a second copy of every point, for a kernel schedule that takes 5 %
/// longer and needs 6 % less energy.
harpe::Profile with_second_schedule(const harpe::Profile& profile) {
  const harpe::Knobs second{.label = harpe::Label::of("sm12").value_or(harpe::Label{})};
  std::vector<harpe::InstructionProfile> entries(profile.entries().begin(),
                                                 profile.entries().end());
  for (harpe::InstructionProfile& entry : entries) {
    const std::vector<harpe::OperatingPoint> points = entry.points;
    for (const harpe::OperatingPoint& point : points) {
      entry.points.push_back({point.clock, point.time * 1.05, point.energy * 0.94, second});
    }
  }
  return profile.with_entries(std::move(entries));
}

harpe::Result<harpe::Pipeline> make_pipeline() {
  const auto plain =
      HARPE_TRY(harpe::one_f_one_b({.stages = kStages, .micro_batches = 2 * kStages}));
  harpe::FixedTimes beside;
  beside.optimizer.assign(kStages, 0.02_s);
  harpe::Transfers transfers;
  transfers.forward.assign(kStages - 1, 0.003_s);
  transfers.backward.assign(kStages - 1, 0.003_s);
  return harpe::Pipeline::build(HARPE_TRY(harpe::with_fixed_times(plain, beside)), transfers);
}

harpe::Status run(std::string_view text) {
  const harpe::Objective objective = HARPE_TRY(harpe::parse_objective(text));
  const harpe::GpuModel* gpu = harpe::find_gpu_model("a40");
  if (gpu == nullptr) return harpe::Error::invalid(harpe::unknown_gpu_model("a40"));
  const harpe::Profile profile = with_second_schedule(HARPE_TRY(make_profile(*gpu)));
  const harpe::Pipeline pipeline = HARPE_TRY(make_pipeline());
  const auto frontier =
      HARPE_TRY(harpe::characterize(pipeline, profile, {.blocking_power = gpu->blocking_power}));

  const harpe::Plan fastest = HARPE_TRY(frontier.fastest_plan());
  const auto reference = harpe::reference_times(frontier, fastest, frontier.all_max(), {});
  const harpe::Plan plan = HARPE_TRY(harpe::plan_for(frontier, objective, reference, {}));
  const harpe::Prediction late =
      HARPE_TRY(harpe::predict(plan, profile, {.switch_latency = 0.01_s}));
  std::printf("%s: %.4f s, %.1f J; with clocks 10 ms late %.4f s, %.1f J\n",
              harpe::text_of(objective).c_str(), plan.iteration_time.value,
              plan.iteration_energy.value, late.iteration_time.value, late.iteration_energy.value);
  const harpe::InstructionSetting first = plan.instructions.front().front().setting();
  std::printf("the first instruction of stage 0 runs with %s\n", harpe::text_of(first).c_str());
  return harpe::ok_status();
}

}  // namespace

int main(int argc, char** argv) {
  const harpe::Status done = run(argc > 1 ? argv[1] : R"({"slowdown": 0.05})");
  if (done.ok()) return 0;
  std::fprintf(stderr, "%s\n", done.error().text().c_str());
  return harpe::exit_status(done.error().code);
}
