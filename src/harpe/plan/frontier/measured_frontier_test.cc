// Plans of Harpe and of Perseus, compared in the model whose predictions match real GPUs.

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>

#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/frontier/measured_runs_testing.h"
#include "harpe/plan/frontier/verify.h"

namespace harpe::plan::measured {
namespace {

TEST(MeasuredFrontier, NeedsLessEnergyThanEveryMeasuredPlanInItsTime) {
  const std::vector<Workload> workloads = measured_workloads();
  if (workloads.empty()) GTEST_SKIP() << "no measured plans";
  std::printf("| %-15s | plans | saving %% mean | least | most |\n", "workload");
  for (const Workload& workload : workloads) {
    SCOPED_TRACE(workload.name);
    const Pipeline pipeline = pipeline_of(workload);
    const Profile profile =
        with_loading(workload.profile, workload.options.load, workload.blocking_power);
    const Frontier frontier =
        must(characterize(pipeline, profile, {.blocking_power = workload.blocking_power}));
    std::vector<double> savings;
    for (const Workload::Run& run : workload.runs) {
      const Plan measured =
          must(plan_from_clocks(pipeline, profile, run.clocks,
                                {.blocking_power = workload.blocking_power, .interpolate = true}));
      const Plan plan = must(frontier.plan(measured.iteration_time));
      const Certificate certificate = must(frontier.certificate(plan.iteration_time));
      EXPECT_THAT(verify_plan(plan, profile, &certificate).diagnostics, testing::IsEmpty());
      EXPECT_LE(plan.iteration_time, measured.iteration_time);
      EXPECT_LT(plan.iteration_energy, measured.iteration_energy);
      savings.push_back(100 * (1 - plan.iteration_energy / measured.iteration_energy));
    }
    double sum = 0;
    for (const double saving : savings) sum += saving;
    const auto [least, most] = std::ranges::minmax(savings);
    std::printf("| %-15s | %zu | %.2f | %.3f | %.2f |\n", workload.name.c_str(), savings.size(),
                sum / static_cast<double>(savings.size()), least, most);
  }
}

}  // namespace
}  // namespace harpe::plan::measured
