// A job whose pace is set from outside.

#include <gtest/gtest.h>

#include "harpe/training/job/played_job_testing.h"

namespace harpe::training {
namespace {

/// Training that runs its fastest plan.
struct Paced : Played {
  Paced() : Played(small_spec()) {
    EXPECT_TRUE(training.register_all(job).ok());
    EXPECT_TRUE(running());
    settle();
  }
  Seconds fastest() const { return training.last().all_max_time; }
  Status pace(double slowdown, const char* why = "412 g/kWh") {
    return job.set_pace(Pace{.iteration_time = fastest() * (1 + slowdown), .why = why},
                        training.now());
  }
};

TEST(JobPace, MovesTheJobAlongItsFrontierAndBack) {
  Paced paced;
  const Joules before = paced.training.last().energy;
  ASSERT_TRUE(paced.pace(0.2).ok());
  paced.settle();
  const Seconds time = paced.training.last().time;
  EXPECT_LT(time, paced.fastest() * 1.205);
  EXPECT_GT(time, paced.fastest() * 1.15);
  EXPECT_LT(paced.training.last().energy, before);
  EXPECT_EQ(paced.job.status().objective, paced.job.spec().objective);

  ASSERT_TRUE(paced.job.set_pace({}, paced.training.now()).ok());
  paced.settle();
  EXPECT_LT(paced.training.last().time, paced.fastest() * 1.005);
  EXPECT_FALSE(paced.job.pace());
}

TEST(JobPace, IsNoBrokenPromise) {
  Paced paced;
  ASSERT_TRUE(paced.pace(0.15).ok());
  paced.training.run(paced.job, 300);
  EXPECT_EQ(paced.events("promised"), 0);
  EXPECT_FALSE(paced.job.status().rolled_back_until);
  EXPECT_GT(paced.slowdown(100), 0.1);
}

/// Users who watch the clocks of a slow job see them rise. The log gives the reason.
TEST(JobPace, SaysWhichIterationsRunAtAllMaxAllTheSame) {
  Paced paced;
  ASSERT_TRUE(paced.pace(0.15).ok());
  paced.settle();
  const std::size_t before = paced.training.iterations().size();
  paced.training.run(paced.job, 200);
  std::vector<std::size_t> hurried;
  for (std::size_t i = before; i < paced.training.iterations().size(); ++i) {
    const auto& one = paced.training.iterations()[i];
    if (one.time < one.all_max_time * 1.01) hurried.push_back(i);
  }
  ASSERT_EQ(hurried.size(), 4);
  EXPECT_EQ(paced.events("iterations " + std::to_string(hurried.front()) + " to " +
                         std::to_string(hurried.back()) + " run at all-max"),
            1);
}

TEST(JobPace, OneThatNoPlanMeetsGetsTheNearest) {
  Paced paced;
  ASSERT_TRUE(paced.pace(-0.5).ok());
  paced.settle();
  EXPECT_LT(paced.training.last().time, paced.fastest() * 1.005);
  ASSERT_TRUE(paced.pace(50).ok());
  paced.settle();
  EXPECT_LT(paced.training.last().energy, paced.training.last().all_max_energy);
  EXPECT_FALSE(paced.job.set_pace(Pace{.iteration_time = Seconds{-1}, .why = ""}, {}).ok());
  EXPECT_TRUE(paced.job.pace());
}

TEST(JobPace, IsNeverFasterThanAPowerCapAllows) {
  Paced paced;
  const Objective least{Objective::Kind::kLeastEnergy, 0};
  ASSERT_TRUE(paced.job.set_objective(least, paced.training.now()).ok());
  paced.settle();
  paced.settle();
  const EmulatedTraining::Iteration slowest = paced.training.last();
  const Watts draws = slowest.energy / slowest.time;
  const Objective cap{Objective::Kind::kPowerCap, draws.value * 1.1};
  ASSERT_TRUE(paced.job.set_objective(cap, paced.training.now()).ok());
  paced.settle();
  const Seconds capped = paced.training.last().time;
  ASSERT_GT(capped, paced.fastest() * 1.02);
  ASSERT_TRUE(paced.pace(0).ok());
  paced.settle();
  EXPECT_GT(paced.training.last().time, capped * 0.999);
}

TEST(JobPace, SurvivesARestartOfTheServer) {
  Paced paced;
  ASSERT_TRUE(paced.pace(0.2).ok());
  paced.settle();
  const Seconds time = paced.training.last().time;
  const Status restarted = paced.restart_server();
  ASSERT_TRUE(restarted.ok()) << restarted.error().text();
  ASSERT_TRUE(paced.job.pace());
  EXPECT_EQ(paced.job.pace()->why, "412 g/kWh");
  paced.settle();
  EXPECT_NEAR(paced.training.last().time / time, 1, 0.01);
}

TEST(JobPace, SaysChangesThatShowAlone) {
  Paced paced;
  ASSERT_TRUE(paced.pace(0.2).ok());
  ASSERT_TRUE(paced.pace(0.205).ok());
  ASSERT_TRUE(paced.pace(0.21).ok());
  paced.settle();
  EXPECT_EQ(paced.events("the pace is "), 1);
  EXPECT_EQ(paced.events("(412 g/kWh)"), 1);
  ASSERT_TRUE(paced.pace(0.1, "").ok());
  paced.settle();
  EXPECT_EQ(paced.events("the pace is "), 2);
}

}  // namespace
}  // namespace harpe::training
