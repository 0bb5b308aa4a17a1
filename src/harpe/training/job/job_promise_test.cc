// Guarantees of a job whose plans do not hold: its objective, and the cost of measuring.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "harpe/training/job/played_job_testing.h"

namespace harpe::training {
namespace {

constexpr double kTolerance = 0.005;

StageAssignment::Purpose purpose_of(const Job& job, std::int64_t iteration) {
  StageAssignment::Purpose purpose = StageAssignment::Purpose::kAllMax;
  for (const StageAssignment& assignments : job.assignments(0, 0))
    if (assignments.from_iteration <= iteration) purpose = assignments.purpose;
  return purpose;
}

/// Numbers of iterations, by the purpose of their assignments.
struct Spent {
  int profiling = 0, planned = 0, at_all_max = 0, all = 0;
};
Spent run(Played& played, int iterations) {
  Spent spent;
  for (int i = 0; i < iterations; ++i) {
    switch (purpose_of(played.job, played.training.next_iteration())) {
      case StageAssignment::Purpose::kProfile:
        ++spent.profiling;
        break;
      case StageAssignment::Purpose::kPlan:
        ++spent.planned;
        break;
      default:
        ++spent.at_all_max;
    }
    ++spent.all;
    played.training.run(played.job, 1);
  }
  return spent;
}

void plan(Played& played) {
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
}

// --- Costs that plans do not know ---------------------------------------------------------------

/// The first iterations that measure all-max teach nothing, because reports of a rank are lost.
TEST(JobPromise, AllMaxIsLookedForUntilItIsKnown) {
  JobSpec spec = small_spec();
  spec.profile = truth_of(spec);
  spec.objective.value = 0.1;
  Played played(spec);
  played.training.lost = [](std::int64_t iteration, RankCoordinates coordinates) {
    return iteration < 14 && coordinates.stage == 1;
  };
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  played.training.run(played.job, 100);
  EXPECT_GT(played.job.status().all_max_time, Seconds{0});
}

/// A second stage becomes slow while a pipeline is measured at all-max, and all-max is looked at.
TEST(JobPromise, AllMaxIsNotWhatASecondSlowStageMakesOfIt) {
  for (const int between : {2, 5, 8}) {
    SCOPED_TRACE(between);
    JobSpec spec = small_spec(4);
    spec.profile = truth_of(spec);
    Played played(spec, {.noise = 0.006});
    PlayedTraining& training = played.training;
    constexpr std::int64_t kKnown = 30;  // no report is lost from here on
    training.lost = [](std::int64_t iteration, RankCoordinates coordinates) {
      return iteration < kKnown && coordinates.stage == 1;
    };
    ASSERT_TRUE(training.register_all(played.job).ok());
    training.run(played.job, kKnown - 9);
    training.slow[{2, 0}] = 1.3;
    training.run(played.job, between);
    training.slow[{2, 3}] = 1.25;
    double worst = 1;
    for (int i = 0; i < 40; ++i) {
      training.run(played.job, 1);
      const Seconds known = played.job.status().all_max_time;
      if (known > Seconds{0}) worst = std::max(worst, known / training.last().all_max_time);
    }
    EXPECT_LT(worst, 1.02);
  }
}

TEST(Promise, TransfersThatNoOneToldOfMakeNoJobSlower) {
  for (const Transfers::Mode mode : {Transfers::Mode::kOverlapped, Transfers::Mode::kRendezvous}) {
    for (const double transfer : {0.01, 0.03}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(mode)) + ", " + std::to_string(transfer));
      const JobSpec known = small_spec();
      JobSpec real = known;
      const Seconds time{transfer};
      real.transfers = {
          .mode = mode, .forward = {time, time, time}, .backward = {time, time, time}};
      Played played(known, real, {.noise = 0.002});
      plan(played);
      played.training.run(played.job, 200);
      EXPECT_LT(played.slowdown(100), kTolerance);
      const JobStatus status = played.job.status();
      EXPECT_TRUE(status.reserve > 0 || status.rolled_back_until ||
                  played.slowdown(200) < kTolerance);
      played.training.run(played.job, 500);
      EXPECT_LT(played.slowdown(500), kTolerance);
    }
  }
}

TEST(Promise, ASlowerGradientExchangeIsNoReasonToMeasure) {
  for (const double slower : {0.03, 0.1, 0.5}) {
    SCOPED_TRACE(slower);
    Played played(small_spec(), {.noise = 0.002});
    plan(played);
    const Joules before = played.training.last().energy;
    played.training.stall = [=](std::int64_t) { return Seconds{slower}; };
    const Spent spent = run(played, 200);
    EXPECT_EQ(spent.profiling, 0);
    EXPECT_EQ(played.events("new plans are computed"), 0);
    EXPECT_GT(spent.planned, 180);
    EXPECT_NEAR(played.job.status().all_max_time.value, played.training.last().all_max_time.value,
                0.01 * played.training.last().all_max_time.value);
    const Joules waiting = Watts{80} * Seconds{slower} * 8;
    EXPECT_LT(played.training.last().energy, (before + waiting) * 1.01) << "the plan goes on";
  }
}

TEST(Promise, StallsCostNoMeasurementAndNoPlan) {
  for (const double limit : HARPE_UNDER_SANITIZERS ? std::vector{0.1} : std::vector{0.1, 0.5}) {
    SCOPED_TRACE(limit);
    JobSpec spec = small_spec();
    spec.profiling.slowdown_limit = limit;
    Played calm(spec, {.noise = 0.002}), stalled(spec, {.noise = 0.002});
    stalled.training.stall = [](std::int64_t iteration) {
      return Seconds{iteration % 25 == 24 ? 20.0 : 0.0};
    };
    ASSERT_TRUE(calm.training.register_all(calm.job).ok());
    ASSERT_TRUE(stalled.training.register_all(stalled.job).ok());
    const int usual = run(calm, 2500).profiling;
    const Spent spent = run(stalled, 2500);
    EXPECT_LE(spent.profiling, usual * 6 / 5);
    EXPECT_GT(spent.planned, spent.all * 9 / 10);
    EXPECT_EQ(stalled.events("profiling is done"), 1);
    EXPECT_EQ(stalled.events("new plans are computed"), 0);
    EXPECT_EQ(stalled.events("", JobEvent::Level::kWarning), 0);
    EXPECT_GT(stalled.job.status().stalls, 80);
    EXPECT_LT(stalled.slowdown(2000), kTolerance);
    EXPECT_GT(stalled.job.status().saved, calm.job.status().saved * 0.8);
  }
}

// --- GPUs that get faster -----------------------------------------------------------------------

TEST(Promise, ClocksThatGpusGainAtARestartAreUsed) {
  JobSpec spec = small_spec();
  spec.profiling.slowdown_limit = 0.1;
  Played played(spec);
  for (int stage = 0; stage < 4; ++stage) {
    for (const OperatingPoint& point :
         played.training.truth().points(0, 0, InstructionKind::kForward))
      if (point.clock > Megahertz{1000}) played.training.lacking[stage].push_back(point.clock);
  }
  plan(played);
  played.training.lacking.clear();
  played.training.start_again("second", 0);
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  played.training.run(played.job, 100);
  EXPECT_LT(played.slowdown(100), 0.1 + kTolerance) << "what measuring may cost";
  ASSERT_TRUE(played.running());
  played.settle();
  played.training.run(played.job, 100);
  EXPECT_LT(played.slowdown(100), kTolerance);
  EXPECT_GT(played.job.status().saved, Joules{0});
}

TEST(Promise, AStageThatWasSlowWhileItWasMeasuredIsAskedToBeAsFastAsItIs) {
  for (const double slow : {1.05, 1.15, 1.3}) {
    for (const int data : {1, 2, 4}) {
      SCOPED_TRACE(std::to_string(slow) + " on " + std::to_string(data));
      Played played(small_spec(data), {.noise = 0.002});
      for (int pipeline = 0; pipeline < data; ++pipeline)
        played.training.slow[{pipeline, 3}] = slow;
      plan(played);
      played.training.slow.clear();
      const Spent spent = run(played, 12);
      EXPECT_EQ(spent.profiling, 0);
      played.training.run(played.job, 50);
      EXPECT_LT(played.slowdown(50), kTolerance);
      EXPECT_LT(played.training.last().energy, played.training.last().all_max_energy * 0.97);
    }
  }
}

/// As if a straggler appeared or disappeared during the measurement, and then the server was lost.
TEST(Promise, AStageThatIsSlowAtSomeClocksAloneIsMeasuredAgain) {
  for (const int data : {1, 2, 4}) {
    SCOPED_TRACE(data);
    JobSpec spec = small_spec(data);
    const Profile truth = truth_of(spec);
    std::vector<InstructionProfile> entries;
    for (InstructionProfile entry : truth.entries()) {
      const OperatingPoint highest = entry.points.back();
      for (OperatingPoint& point : entry.points)
        if (entry.stage == 1 && point.clock < highest.clock) point.time = point.time * 0.75;
      std::erase_if(entry.points, [&](const OperatingPoint& point) {
        return point.clock < highest.clock && point.time <= highest.time;
      });
      entries.push_back(std::move(entry));
    }
    spec.profile = truth.with_entries(std::move(entries));
    spec.blocking_power = Watts{80};
    Played played(spec);
    plan(played);
    played.training.run(played.job, 300);
    EXPECT_LT(played.slowdown(100), kTolerance);
    EXPECT_LT(played.training.last().energy, played.training.last().all_max_energy * 0.97);
  }
}

// --- Probes -------------------------------------------------------------------------------------

TEST(Promise, ProbesTakeAtMostOnePercentOfTheIterations) {
  Played played(small_spec(), {.noise = 0.01});
  plan(played);
  Spent sum;
  for (int hundred = 1; hundred <= (HARPE_UNDER_SANITIZERS ? 20 : 40); ++hundred) {
    const Spent spent = run(played, 100);
    EXPECT_EQ(spent.profiling, 0);
    sum.at_all_max += spent.at_all_max;
    sum.all += spent.all;
    EXPECT_LE(sum.at_all_max, 0.01 * std::max(sum.all, 400)) << "after " << sum.all;
  }
  EXPECT_GE(sum.at_all_max, 8) << "the yardstick is measured now and then";
  EXPECT_LE(sum.at_all_max, 0.01 * sum.all);
  EXPECT_EQ(played.events("", JobEvent::Level::kWarning), 0);
}

/// Savings are compared with all-max, which may change.
TEST(Promise, JobsThatPromiseNoTimeAreProbedToo) {
  Played played(small_spec());
  plan(played);
  ASSERT_TRUE(
      played.job.set_objective({.kind = Objective::Kind::kLeastEnergy}, played.training.now())
          .ok());
  played.settle();
  const Spent spent = run(played, 3000);
  EXPECT_GE(spent.at_all_max, 6);
  EXPECT_LE(spent.at_all_max, 0.01 * spent.all);
  EXPECT_GE(played.events("run at all-max, to measure the iteration time"), 2)
      << "power rises visibly, so the log says why";
}

TEST(Promise, NoProbeExceedsAPowerCap) {
  Played played(small_spec());
  plan(played);
  const double usual = (played.training.last().energy / played.training.last().time).value;
  const double cap = usual * 0.93;
  ASSERT_TRUE(
      played.job
          .set_objective({.kind = Objective::Kind::kPowerCap, .value = cap}, played.training.now())
          .ok());
  played.settle();
  const auto expect_capped = [&](int iterations) {
    for (int i = 0; i < iterations; ++i) {
      played.training.run(played.job, 1);
      const auto& last = played.training.last();
      ASSERT_LE((last.energy / last.time).value, cap * 1.01) << last.number;
    }
  };
  expect_capped(400);
  // No probe doubts a declared straggler, either.
  ASSERT_TRUE(played.job.set_straggler({.pipeline = 1, .factor = 1.4}, played.training.now()).ok());
  expect_capped(60);
  ASSERT_TRUE(played.restart_server().ok());
  played.training.run(played.job, 1);
  expect_capped(60);
  played.training.start_again("second", 0);
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  played.training.run(played.job, 2);
  expect_capped(200);
}

// --- Delivery -----------------------------------------------------------------------------------

TEST(Promise, DeliveryThatWasSlowOnceIsGivenLessTimeAgain) {
  Played played(small_spec(3));
  plan(played);
  bool late = true;
  played.training.unreached = [&](RankCoordinates coordinates) {
    return late && coordinates.data == 1 && played.training.next_iteration() % 5 != 0;
  };
  // Returns the number of iterations until a change is in force.
  const auto change = [&](double slowdown) {
    EXPECT_TRUE(played.job.set_objective({.value = slowdown}, played.training.now()).ok());
    const std::int64_t ahead =
        played.job.assignments(0, 0).back().from_iteration - played.training.next_iteration();
    played.training.run(played.job, 12);
    return ahead;
  };
  EXPECT_EQ(change(0.2), 1);
  std::int64_t ahead = 0;
  for (int i = 0; i < 10; ++i) ahead = change(i % 2 == 0 ? 0 : 0.2);
  EXPECT_GE(ahead, 3);
  EXPECT_GT(played.job.status().assignments_late, 2);
  late = false;
  played.training.run(played.job, 2000);
  EXPECT_EQ(change(0), 1);
}

}  // namespace
}  // namespace harpe::training
