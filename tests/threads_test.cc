// Several threads may query a frontier at the same time, with the same results as one thread.

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/profile/synth.h"

namespace harpe {
namespace {

TEST(Threads, PlansMadeAtOnceAreThePlansMadeOneByOne) {
  const auto profile = synthesize({.stages = 4});
  ASSERT_TRUE(profile.ok());
  const auto frontier = characterize(one_f_one_b({.stages = 4, .micro_batches = 6}), *profile,
                                     {.blocking_power = Watts{83.64}});
  ASSERT_TRUE(frontier.ok());
  constexpr int kThreads = 4;
  const auto deadline = [&](int i) { return frontier->min_time() * (1 + 0.02 * i); };
  const auto plan_at = [&](int i) {
    const auto plan = frontier->plan(deadline(i));
    return plan.ok() ? plan_json(*plan) : plan.error().text();
  };
  std::vector<std::string> alone;
  for (int i = 0; i < kThreads; ++i) alone.push_back(plan_at(i));

  std::vector<std::string> together(kThreads);
  std::vector<double> bounds(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        together[i] = plan_at(i);
        bounds[i] = frontier->lower_bound(deadline(i)).value;
      });
    }
  }
  EXPECT_EQ(alone, together);
  for (int i = 0; i < kThreads; ++i) {
    EXPECT_EQ(bounds[i], frontier->lower_bound(deadline(i)).value);
  }
}

}  // namespace
}  // namespace harpe
