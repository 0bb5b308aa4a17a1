// From a measured profile to a plan, in as few lines as possible.
//
//   plan PROFILE.csv

#include <cstdio>

#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/schedule.h"

namespace {

template <class T>
bool failed(const harpe::Result<T>& result) {
  if (!result.ok()) std::fprintf(stderr, "%s\n", result.error().text().c_str());
  return !result.ok();
}

}  // namespace

int main(int argc, char** argv) {
  using harpe::operator""_W;
  if (argc != 2) {
    std::fprintf(stderr, "usage: plan PROFILE.csv\n");
    return 2;
  }
  const auto profile = harpe::read_profile(argv[1]);
  if (failed(profile)) return 2;

  const auto schedule = harpe::one_f_one_b({.stages = profile->stages(), .micro_batches = 12});
  const auto frontier = harpe::characterize(schedule, *profile, {.blocking_power = 83.64_W});
  if (failed(frontier)) return 2;

  const auto plan = frontier->plan(frontier->min_time() * 1.05);
  if (failed(plan)) return 2;

  std::printf("%.4f s, %.1f J, at most %.3f %% above the optimum; all clocks at maximum: %.1f J\n",
              plan->iteration_time.value, plan->iteration_energy.value, 100 * plan->gap(),
              frontier->all_max().iteration_energy.value);
  return 0;
}
