// Results of `make_plans`.

#include "harpe/command/plan_cli/planning.h"

#include <gtest/gtest.h>

#include <sstream>

#include "harpe/plan/frontier/random_pipelines_testing.h"

namespace harpe::command {
namespace {

constexpr plan::Case kShapes[] = {{"1f1b", 3, 4, 1, false}, {"gpipe", 2, 6, 1, false}};

// Under late clocks, one search may by chance find a plan that another missed. The chosen plan is
// then replaced by a plan that ends sooner, for which the bound of the old plan does not hold.
TEST(Planning, BoundsTheChosenPlanNotOneThatItReplaced) {
  int checked = 0;
  for (unsigned seed = 0; seed < plan::seeds(30); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    plan::Random random(seed + 120);
    const plan::Case& c = kShapes[seed % std::size(kShapes)];
    const Profile profile = plan::random_profile(random, c.stages, c.chunks, 4, c.split);
    const Frontier frontier =
        characterize(plan::random_pipeline(random, c), profile, {.blocking_power = 60_W}).value();
    PlanJob job;
    job.quick = true;
    job.objective = {.kind = Objective::Kind::kSlowdown, .value = random.between(0, 0.4)};
    job.switch_latency.by_clock = LatencyByClock(Seconds{random.between(0.001, 0.02)});
    std::ostringstream out;
    Console console{.out = out, .err = out};
    LongPlanSearch search(job, console);
    const Result<Planned> planned = make_plans(frontier, job, 0, {}, search);
    if (!planned.ok()) continue;
    const Plan& chosen = planned->chosen;
    EXPECT_LE(planned->tight_bound, chosen.iteration_energy);
    EXPECT_LE(chosen.lower_bound, chosen.iteration_energy);
    EXPECT_GE(planned->tight_bound, chosen.lower_bound);
    ++checked;
  }
  EXPECT_GT(checked, 5);
}

}  // namespace
}  // namespace harpe::command
