// Jobs whose clocks are late, although their specification does not declare it.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "harpe/plan/frontier/predict.h"
#include "harpe/training/job/late_clocks.h"
#include "harpe/training/job/make_plans.h"
#include "harpe/training/job/played_job_testing.h"

namespace harpe::training {
namespace {

constexpr char kLearned[] = "because clocks change about ";

Played played_with(Seconds latency, const JobSpec& spec = small_spec()) {
  EmulatedMachines::Options options;
  options.switch_latency = latency;
  Played played(spec, options);
  EXPECT_TRUE(played.training.register_all(played.job).ok());
  EXPECT_TRUE(played.running());
  return played;
}

/// Returns the saving of the newest iterations against all-max.
double saving(const Played& played, std::size_t iterations) {
  const auto& all = played.training.iterations();
  Joules used{0}, at_all_max{0};
  for (std::size_t i = all.size() - iterations; i < all.size(); ++i) {
    used += all[i].energy;
    at_all_max += all[i].all_max_energy;
  }
  return 1 - used / at_all_max;
}

TEST(JobLateClocks, AreLearnedFromWhatRanksTakeAndPlannedWith) {
  for (const Seconds latency : {Seconds{0.01}, Seconds{0.03}}) {
    SCOPED_TRACE(testing::Message() << latency.value << " s");
    Played played = played_with(latency);
    played.training.run(played.job, 1500);
    EXPECT_EQ(played.events(kLearned), 1);
    const Seconds learned = played.job.search_request().learned_latency;
    EXPECT_GT(learned, latency);
    EXPECT_LT(learned, latency * 1.4);
    // Without the learned latency, the first took 0.4 % longer, and the second returned to all-max.
    EXPECT_LT(played.slowdown(500), 0.002);
    EXPECT_GT(saving(played, 500), 0.06);
    EXPECT_EQ(played.events("plans with a reserve of"), 0);
  }
}

TEST(JobLateClocks, AreNotLearnedWhereClocksComeAtOnce) {
  Played played = played_with(Seconds{0});
  played.training.run(played.job, 800);
  EXPECT_EQ(played.events(kLearned), 0);
  EXPECT_EQ(played.job.search_request().learned_latency, Seconds{0});
}

TEST(JobLateClocks, AreStillKnownWhenTheServerStartsAgain) {
  Played played = played_with(Seconds{0.01});
  played.training.run(played.job, 400);
  const Seconds learned = played.job.search_request().learned_latency;
  ASSERT_GT(learned, Seconds{0});
  ASSERT_TRUE(played.restart_server().ok());
  EXPECT_EQ(played.job.search_request().learned_latency, learned);
}

TEST(JobLateClocks, StatedTooSmallAreLearnedAsTheyAre) {
  JobSpec spec = small_spec();
  spec.switch_latency = Seconds{0.002};
  Played played = played_with(Seconds{0.03}, spec);
  played.training.run(played.job, 1500);
  EXPECT_EQ(played.events(kLearned), 1);
  EXPECT_LT(played.slowdown(500), 0.002);
}

/// A plan that changes clocks, and the times of its computations.
class LatencyOf : public testing::Test {
 protected:
  LatencyOf() {
    spec_.profile = truth_of(spec_);
    spec_.blocking_power = Watts{80};
    CharacterizeRequest request;
    request.profile = *spec_.profile;
    request.blocking_power =
        std::vector<Watts>(static_cast<std::size_t>(spec_.shape.stages), Watts{80});
    const Pipeline pipeline = *planned_pipeline(spec_);
    const Frontier frontier = *characterize(spec_, pipeline, request);
    plan_ = make_plans(spec_, request, frontier, Effort::kQuick, 5)->plans().front();
  }

  /// Returns the seconds of one instruction of each work item if clocks are late by `latency`.
  std::vector<double> measured(Seconds latency) const {
    std::vector<double> items;
    for (int stage = 0; stage < spec_.shape.stages; ++stage) {
      std::vector<PlannedInstruction> list;
      const auto& schedule = spec_.schedule.lists[static_cast<std::size_t>(stage)];
      for (std::size_t i = 0; i < schedule.size(); ++i) {
        list.push_back(
            {.kind = schedule[i].kind, .clock = plan_.clocks[static_cast<std::size_t>(stage)][i]});
      }
      const std::vector<Seconds> times = replay_stage(list, *spec_.profile, stage, latency);
      for (const plan::WorkItem& item : work_.stage(stage)) {
        double sum = 0;
        for (std::size_t i = 0; i < list.size(); ++i)
          if (list[i].kind == item.kind) sum += times[i].value;
        items.push_back(sum / item.count);
      }
    }
    return items;
  }
  std::optional<Seconds> found(const std::vector<double>& items) const {
    return latency_of(spec_.schedule, work_, *spec_.profile, plan_, items);
  }

  JobSpec spec_ = small_spec();
  plan::ScheduleWork work_{spec_.schedule};
  plan::TablePlan plan_;
};

TEST_F(LatencyOf, IsWhatClocksAreLateBy) {
  for (const double seconds : {0.002, 0.01, 0.045}) {
    std::vector<double> items = measured(Seconds{seconds});
    for (std::size_t i = 0; i < items.size(); ++i) items[i] *= i % 2 == 0 ? 1.0002 : 0.9998;
    const auto latency = found(items);
    ASSERT_TRUE(latency) << seconds;
    EXPECT_NEAR(latency->value / seconds, 1, 0.15);
  }
}

TEST_F(LatencyOf, IsNotWhatOtherCausesTake) {
  EXPECT_FALSE(found(measured(Seconds{0})));
  std::vector<double> slower = measured(Seconds{0});
  for (double& item : slower) item *= 1.03;
  EXPECT_FALSE(found(slower)) << "all computations alike";
  std::vector<double> one = measured(Seconds{0});
  one[1] *= 1.1;
  EXPECT_FALSE(found(one)) << "one kind of computation of one stage";
}

TEST_F(LatencyOf, TakesWhatIsNotKnownForNothing) {
  std::vector<double> items = measured(Seconds{0.01});
  items[2] = std::nan("");
  const auto latency = found(items);
  ASSERT_TRUE(latency);
  EXPECT_NEAR(latency->value, 0.01, 0.001);
}

}  // namespace
}  // namespace harpe::training
