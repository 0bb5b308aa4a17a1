#include "harpe/training/job/job.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "harpe/training/job/job_status_json.h"
#include "harpe/training/job/played_job_testing.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

TEST(Job, MeasuresItselfAndSavesEnergyWithoutSlowdown) {
  const JobSpec spec = small_spec();
  Played played(spec);
  EXPECT_EQ(played.job.phase(), JobPhase::kRegistering);
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  EXPECT_EQ(played.job.phase(), JobPhase::kProfiling);
  played.training.run(played.job, 1);
  const PlayedTraining::Iteration full = played.training.last();
  ASSERT_TRUE(played.running());
  played.settle();
  const PlayedTraining::Iteration planned = played.training.last();
  EXPECT_LT(planned.time, full.time * 1.003);
  EXPECT_LT(planned.energy, full.energy * 0.93);

  // As good as a plan that knows the true costs.
  const auto frontier = characterize(one_f_one_b({.stages = 4, .micro_batches = 6}), truth_of(spec),
                                     {.blocking_power = Watts{80}});
  const auto best = frontier->plan(frontier->all_max().iteration_time);
  const Joules overhead = Watts{80} * Seconds{0.05} * 4;
  EXPECT_LT(planned.energy, (best->iteration_energy + overhead) * 2 * 1.02);
  const JobStatus status = played.job.status();
  EXPECT_GT(status.saved, Joules{0});
  EXPECT_NEAR(status.predicted_time.value, planned.time.value, 0.01 * planned.time.value);
}

TEST(Job, ProfilingNeverCostsMoreThanItsLimit) {
  for (const double limit : {0.02, 0.1, 1.0}) {
    SCOPED_TRACE(limit);
    JobSpec spec = small_spec();
    spec.profiling.slowdown_limit = limit;
    Played played(spec);
    ASSERT_TRUE(played.training.register_all(played.job).ok());
    played.training.run(played.job, 1);
    const Seconds full = played.training.last().time;
    ASSERT_TRUE(played.running());
    Seconds taken{0}, at_full{0};
    for (const auto& iteration : played.training.iterations()) {
      taken += iteration.time;
      at_full += full;
      EXPECT_LE(taken, at_full * (1 + limit) * 1.001) << iteration.number;
    }
  }
}

TEST(Job, BlockingPowerIsMeasured) {
  Played played(small_spec());
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  EXPECT_NEAR(played.job.plans()->waiting_power().value, 4 * 80, 4 * 80 * 0.05);
}

TEST(Job, AllRanksChangeAtTheSameIteration) {
  JobSpec spec = small_spec(3);
  Played played(spec);
  // Some ranks receive assignments an iteration later.
  played.training.unreached = [&](RankCoordinates coordinates) {
    return (coordinates.data + coordinates.stage + played.training.next_iteration()) % 2 == 1;
  };
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  ASSERT_TRUE(played.job.set_straggler({.pipeline = 1, .factor = 1.2}, played.training.now()).ok());
  played.settle();
  std::size_t mixed = 0;
  for (const auto& iteration : played.training.iterations())
    mixed += std::set(iteration.versions.begin(), iteration.versions.end()).size() > 1;
  // The first delivery shows that more time is needed.
  EXPECT_LE(mixed, 2U);
}

TEST(Job, OutagesDoNotMakeChangesComeLater) {
  Played played(small_spec(3));
  PlayedTraining& training = played.training;
  ASSERT_TRUE(training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  double factor = 1.1;
  const auto change = [&] {
    factor = 2.5 - factor;  // alternates between 1.1 and 1.4
    ASSERT_TRUE(played.job.set_straggler({.pipeline = 1, .factor = factor}, training.now()).ok());
  };
  const auto ahead = [&] {
    change();
    const auto from =
        played.job.assignments(0, 0).back().from_iteration - training.next_iteration();
    played.settle();
    return from;
  };
  const std::int64_t before = ahead();
  const RankCoordinates cut_off{2, 3, 0};
  for (int outage = 0; outage < 8; ++outage) {
    const std::int64_t begin = training.next_iteration(), end = begin + 12;
    training.lost = [=](std::int64_t iteration, RankCoordinates coordinates) {
      return coordinates == cut_off && iteration < end;
    };
    training.unreached = [&, end](RankCoordinates coordinates) {
      return coordinates == cut_off && training.next_iteration() <= end;
    };
    for (int i = 0; i < 4; ++i) {
      change();
      training.run(played.job, 5);
    }
    played.settle();
  }
  const std::int64_t late = played.job.status().assignments_late;
  EXPECT_GT(late, 4) << "they are counted";
  EXPECT_EQ(ahead(), before);
}

TEST(Job, ChangesMadeWhileAnIterationIsHeldUpComeRightBehindIt) {
  Played played(small_spec(3));
  PlayedTraining& training = played.training;
  ASSERT_TRUE(training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  const auto ahead = [&] {
    return played.job.assignments(0, 0).back().from_iteration - training.next_iteration();
  };
  const std::int64_t held_up = training.next_iteration();
  training.stall = [=](std::int64_t iteration) { return Seconds{iteration == held_up ? 40.0 : 0}; };
  ASSERT_TRUE(played.job.set_objective({.value = 0.2}, training.now() + Seconds{39}).ok());
  EXPECT_GT(ahead(), 20) << "the ranks may be anywhere";
  training.run(played.job, 1);
  EXPECT_LE(ahead(), 2);
  // If only the reports were held up, the ranks are where the job expects them.
  ASSERT_TRUE(played.job.set_objective({.value = 0}, training.now() + Seconds{39}).ok());
  const std::int64_t far = ahead();
  training.run_for(Seconds{40});
  training.run(played.job, 1);
  EXPECT_EQ(ahead(), far - 1);
  // Until more reports arrive right after their iterations.
  training.run(played.job, 3);
  EXPECT_LE(ahead(), 2);
}

TEST(Job, StagesThatAreSeenAtAllMaxAreSeenSoonWhereAReportWasHeldUp) {
  Played played(small_spec(3));
  PlayedTraining& training = played.training;
  ASSERT_TRUE(training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  for (int pipeline = 0; pipeline < 3; ++pipeline) training.slow[{pipeline, 1}] = 1.25;
  training.run(played.job, 2);
  // The third iteration shows it. A rank is held up: its report is 40 s late, and the others wait.
  std::optional<IterationReport> late;
  const std::int64_t third = training.next_iteration();
  training.change_report = [&](IterationReport& one) {
    if (one.iteration != third || one.coordinates != RankCoordinates{2, 3, 0}) return;
    late = one;
    one.session = "lost";
  };
  training.run(played.job, 1);
  ASSERT_TRUE(late);
  ASSERT_TRUE(played.job.report(*late, training.now() + Seconds{39}).ok());
  EXPECT_GT(played.job.assignments(0, 0).back().from_iteration, third + 20);
  training.stall = [=](std::int64_t iteration) {
    return Seconds{iteration == third + 1 ? 40.0 : 0};
  };
  EXPECT_TRUE(training.run_until(
      played.job, [&] { return played.job.phase() == JobPhase::kCharacterizing; }, 15));
}

TEST(Job, SlowStagesAreFoundWhereIterationsAreCountedAnew) {
  Played played(small_spec(3));
  PlayedTraining& training = played.training;
  ASSERT_TRUE(training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  training.run(played.job, 200);
  training.start_again("first", 0);  // from a checkpoint, in the same processes
  played.settle();
  EXPECT_TRUE(played.plans_anew_when_slower(1));
  EXPECT_GT(played.events("stage 1 takes 1.25 times as long"), 0);
}

TEST(Job, AnotherObjectiveEndsAllMaxAmidStragglersToo) {
  Played played(small_spec(3));
  PlayedTraining& training = played.training;
  ASSERT_TRUE(training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  ASSERT_TRUE(played.job.set_straggler({.pipeline = 2, .factor = 1.3}, training.now()).ok());
  double factor = 1;
  for (int growths = 0; growths < 8 && !played.job.status().rolled_back_until; ++growths) {
    factor *= 1.15;
    for (int pipeline = 0; pipeline < 3; ++pipeline) training.slow[{pipeline, 1}] = factor;
    training.run(played.job, 20);
  }
  ASSERT_TRUE(played.job.status().rolled_back_until);
  ASSERT_EQ(played.job.phase(), JobPhase::kStraggling);
  ASSERT_TRUE(
      played.job.set_objective({.kind = Objective::Kind::kSlowdown, .value = 0.1}, training.now())
          .ok());
  EXPECT_FALSE(played.job.status().rolled_back_until);
  EXPECT_EQ(played.job.assignments(0, 0).back().purpose, StageAssignment::Purpose::kPlan);
  training.run(played.job, 1);
  EXPECT_EQ(played.events("the objective is now: slowdown 10 %"), 1);
}

TEST(Job, AnObjectiveThatChangesNoPlanYetIsInTheLog) {
  Played played(small_spec());
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  ASSERT_TRUE(played.job.set_straggler({.pipeline = 1, .factor = 1.4}, played.training.now()).ok());
  for (int stage = 0; stage < 4; ++stage) played.training.slow[{1, stage}] = 1.4;
  played.training.run(played.job, 30);
  ASSERT_EQ(played.job.phase(), JobPhase::kStraggling);
  const std::uint64_t version = played.job.assignments(0, 0).back().version;
  ASSERT_TRUE(
      played.job
          .set_objective({.kind = Objective::Kind::kSlowdown, .value = 0.01}, played.training.now())
          .ok());
  EXPECT_EQ(played.job.assignments(0, 0).back().version, version) << "all wait as before";
  played.training.run(played.job, 1);
  EXPECT_EQ(played.events("the objective is now: slowdown 1 %"), 1);
}

TEST(Job, OthersWaitForAStragglerWhereThereIsOneStage) {
  Played played(small_spec(4, 1));
  PlayedTraining& training = played.training;
  ASSERT_TRUE(training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  training.slow[{2, 0}] = 1.3;
  EXPECT_TRUE(training.run_until(
      played.job, [&] { return played.job.phase() == JobPhase::kStraggling; }, 12));
  const Joules before = training.last().energy;
  training.run(played.job, 15);
  EXPECT_GT(played.job.status().wait_until / played.job.plans()->plans().front().time, 1.27);
  EXPECT_LT(training.last().energy, before * 0.97);
  EXPECT_EQ(played.events(" s: pipeline 2 takes 1.3 times as long"), 1);
  EXPECT_LT(played.slowdown(20), 0.005);
}

TEST(Job, ADeclaredStragglerSlowsTheOthersExactlyAsFarAsItAllows) {
  Played played(small_spec(4));
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  const PlayedTraining::Iteration before = played.training.last();

  for (int stage = 0; stage < 4; ++stage) played.training.slow[{2, stage}] = 1.2;
  const std::int64_t declared_at = played.training.next_iteration();
  ASSERT_TRUE(played.job.set_straggler({.pipeline = 2, .factor = 1.2}, played.training.now()).ok());
  EXPECT_EQ(played.job.phase(), JobPhase::kStraggling);
  // The ranks are in iteration `declared_at`; the next one runs by the new plan.
  EXPECT_EQ(played.job.assignments(0, 0).back().from_iteration, declared_at + 1);
  played.settle();
  const PlayedTraining::Iteration straggling = played.training.last();
  const Seconds overhead{0.05};
  EXPECT_NEAR((straggling.time - overhead).value, (before.time - overhead).value * 1.2,
              0.01 * before.time.value);
  EXPECT_LT(straggling.of_pipeline[0], before.of_pipeline[0] * 1.0);

  played.training.slow.clear();
  ASSERT_TRUE(played.job.clear_straggler(2, played.training.now()).ok());
  played.settle();
  EXPECT_EQ(played.job.phase(), JobPhase::kRunning);
  EXPECT_NEAR(played.training.last().time.value, before.time.value, 1e-9);
}

TEST(Job, AStragglerIsDetectedAnsweredAndItsEndToo) {
  Played played(small_spec(4));
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  const PlayedTraining::Iteration before = played.training.last();
  played.training.slow[{1, 3}] = 1.4;
  ASSERT_TRUE(played.training.run_until(
      played.job, [&] { return played.job.phase() == JobPhase::kStraggling; }, 30));
  const std::vector<plan::Straggler> stragglers = played.job.status().stragglers;
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0].pipeline, 1);
  EXPECT_TRUE(stragglers[0].detected);
  // One slow stage does not slow all of its pipeline.
  EXPECT_GT(stragglers[0].factor, 1.1);
  EXPECT_LE(stragglers[0].factor, 1.41);
  const Seconds slow_time = played.training.last().time;
  const Joules slow_energy = played.training.last().energy;
  played.settle();
  EXPECT_LT(played.training.last().time, slow_time * 1.01);
  EXPECT_LT(played.training.last().energy, slow_energy);

  played.training.slow.clear();
  ASSERT_TRUE(played.training.run_until(
      played.job, [&] { return played.job.phase() == JobPhase::kRunning; }, 10));
  played.settle();
  EXPECT_NEAR(played.training.last().time.value, before.time.value, 1e-9);
}

TEST(Job, TheWorstOfSeveralStragglersSetsThePace) {
  Played played(small_spec(4));
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  const auto declare = [&](int pipeline, double factor) {
    for (int stage = 0; stage < 4; ++stage) played.training.slow[{pipeline, stage}] = factor;
    ASSERT_TRUE(
        played.job.set_straggler({.pipeline = pipeline, .factor = factor}, played.training.now())
            .ok());
  };
  const auto plan_of = [&](int pipeline) { return played.job.pipelines()[pipeline].plan; };
  const auto shown = [&] { return job_status_json(played.job, [](Seconds at) { return at; }); };
  const auto expect_all_through = [&](const std::vector<double>& factors) {
    for (const PipelineState& state : played.job.pipelines()) {
      EXPECT_EQ(state.plan.from, plan::PlanRef::From::kShared);
      EXPECT_LE(state.time * factors[state.pipeline], played.job.status().wait_until * (1 + 0.005));
    }
  };
  declare(0, 1.1);
  declare(3, 1.3);
  EXPECT_EQ(plan_of(0).from, plan::PlanRef::From::kAllMax) << "until it is known what it can do";
  EXPECT_EQ(plan_of(3).from, plan::PlanRef::From::kAllMax);
  EXPECT_GT(plan_of(1).plan, 0U) << "the others wait at once";
  EXPECT_EQ(plan_of(1), plan_of(2));
  EXPECT_EQ(shown()["pipelines"].size(), 4U);
  EXPECT_EQ(shown()["pipelines"][3]["factor"], 1.3);
  EXPECT_NEAR(shown()["pipelines"][3]["time_s"].get<double>(), played.job.status().wait_until.value,
              1e-6);
  EXPECT_LE(shown()["stage_clocks"][1]["lowest_mhz"], shown()["stage_clocks"][1]["highest_mhz"]);
  played.settle();
  EXPECT_EQ(plan_of(3).plan, 0U);
  EXPECT_GT(plan_of(0).plan, 0U);
  EXPECT_GT(plan_of(1).plan, plan_of(0).plan);
  EXPECT_EQ(plan_of(1), plan_of(2));
  expect_all_through({1.1, 1, 1, 1.3});
  // A straggler that gets worse.
  declare(0, 1.4);
  played.training.run(played.job, 80);
  EXPECT_EQ(plan_of(0).plan, 0U);
  EXPECT_GT(plan_of(3).plan, 0U);
  expect_all_through({1.4, 1, 1, 1.3});
}

TEST(Job, AStragglersTimeEnds) {
  Played played(small_spec());
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  const Seconds until = played.training.now() + Seconds{20};
  ASSERT_TRUE(
      played.job
          .set_straggler({.pipeline = 0, .factor = 1.5, .until = until}, played.training.now())
          .ok());
  EXPECT_TRUE(played.training.run_until(
      played.job, [&] { return played.job.phase() == JobPhase::kRunning; }, 200));
  EXPECT_GE(played.training.now(), until);
}

TEST(Job, PlansFollowAStageThatBecomesSlower) {
  Played played(small_spec());
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  ASSERT_TRUE(played.plans_anew_when_slower(1));
  ASSERT_TRUE(played.running());
  played.settle();
  played.settle();
  EXPECT_LT(played.training.last().time, played.training.last().all_max_time * 1.005);
  EXPECT_LT(played.training.last().energy, played.training.last().all_max_energy * 0.95);
  const JobStatus status = played.job.status();
  EXPECT_FALSE(status.rolled_back_until);
  EXPECT_NEAR(status.predicted_time.value, played.training.last().time.value,
              0.02 * played.training.last().time.value);
}

TEST(Job, AStageThatIsFasterByItsPlanThanItsProfileSaysIsProfiledAgain) {
  constexpr int kStage = 1;
  JobSpec spec = small_spec();
  const Profile truth = truth_of(spec);
  std::vector<InstructionProfile> entries(truth.entries().begin(), truth.entries().end());
  for (InstructionProfile& entry : entries) {
    if (entry.stage != kStage) continue;
    for (OperatingPoint& point : entry.points)
      if (point.clock != all_max_point(entry.points).clock) point.time = point.time * 1.05;
  }
  spec.profile = truth.with_entries(std::move(entries));
  spec.blocking_power = Watts{80};
  Played played(spec);
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  EXPECT_TRUE(played.training.run_until(
      played.job, [&] { return played.job.phase() == JobPhase::kProfiling; }, 300));
  ASSERT_TRUE(played.running());
  const int looks = played.events("all stages run at all-max for some iterations");
  played.training.run(played.job, 300);
  EXPECT_EQ(played.events("all stages run at all-max for some iterations"), looks);
}

TEST(Job, AStageThatStaysFasterByItsPlanAloneIsSeldomMeasuredAtAllMax) {
  constexpr int kStage = 1, kIterations = 4000;
  Played played(small_spec());
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.training.change_report = [&](IterationReport& report) {
    const auto& current = played.job.assignments(report.coordinates.data, kStage);
    const auto by = std::ranges::find(current, report.version, &StageAssignment::version);
    const bool by_plan = by != current.end() && by->purpose == StageAssignment::Purpose::kPlan;
    if (report.coordinates.stage != kStage || !by_plan) return;
    for (InstructionTotals& totals : report.instructions) totals.time = totals.time * 0.95;
  };
  played.training.run(played.job, kIterations);
  EXPECT_LE(played.events("all stages run at all-max for some iterations"), kIterations / 100);
}

TEST(Job, AStageOfOnePipelineThatIsSlowByItsPlanAloneIsNamedWithWhatMayBeTheCause) {
  Played played(small_spec());
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.training.change_report = [&](IterationReport& report) {
    const auto& current = played.job.assignments(1, 1);
    const auto by = std::ranges::find(current, report.version, &StageAssignment::version);
    const bool by_plan = by != current.end() && by->purpose == StageAssignment::Purpose::kPlan;
    if (report.coordinates.data != 1 || report.coordinates.stage != 1 || !by_plan) return;
    for (InstructionTotals& totals : report.instructions) totals.time = totals.time * 1.05;
  };
  played.training.run(played.job, 1500);
  EXPECT_GE(
      played.events("stage 1 of pipeline 1 is repeatedly slower than its plan, but not at all-max"),
      1);
  EXPECT_GE(
      played.events(
          "has no switch_latency_s (harpe switch-latency --table measures it): all-max until"),
      1);
}

TEST(Job, AnObjectiveMovesAlongTheFrontier) {
  Played played(small_spec());
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  const PlayedTraining::Iteration before = played.training.last();
  const Seconds now = played.training.now();
  const Seconds deadline = before.time * 1.15;
  ASSERT_TRUE(played.job.set_objective({Objective::Kind::kDeadline, deadline.value}, now).ok());
  played.settle();
  EXPECT_LE(played.training.last().time, deadline * 1.005);
  EXPECT_LT(played.training.last().energy, before.energy);

  const Watts cap = before.energy / before.time * 0.9;
  ASSERT_TRUE(played.job.set_objective({Objective::Kind::kPowerCap, cap.value}, now).ok());
  played.settle();
  EXPECT_LE(played.training.last().energy / played.training.last().time, cap * 1.01);

  const Status impossible = played.job.set_objective({Objective::Kind::kDeadline, 0.01}, now);
  ASSERT_FALSE(impossible.ok());
  EXPECT_EQ(impossible.error().code, ErrorCode::kInfeasible);
  EXPECT_EQ(played.job.status().objective.kind, Objective::Kind::kPowerCap);
}

TEST(Job, AGivenProfileIsPlannedWithAtOnce) {
  JobSpec spec = small_spec();
  spec.profile = truth_of(spec);
  spec.blocking_power = Watts{80};
  Played played(spec);
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  EXPECT_EQ(played.job.phase(), JobPhase::kCharacterizing);
  ASSERT_TRUE(played.training.run_until(
      played.job, [&] { return played.job.phase() == JobPhase::kRunning; }, 6));
}

TEST(Job, RanksThatDieDoNotStopTheOthers) {
  Played played(small_spec(3));
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  played.training.run(played.job, 10);
  played.training.lost = [](std::int64_t, RankCoordinates coordinates) {
    return coordinates == RankCoordinates{1, 2, 0};
  };
  ASSERT_TRUE(played.running());
  bool told = false;
  for (const JobEvent& event : played.training.events)
    told = told || event.text.find("pipeline 1, stage 2") != std::string::npos;
  EXPECT_TRUE(told);
}

TEST(Job, GarbageHarmsNobody) {
  Played played(small_spec());
  PlayedTraining& training = played.training;
  ASSERT_TRUE(training.register_all(played.job).ok());
  const Seconds now = training.now();
  const auto good = [&] {
    IterationReport report;
    report.coordinates = {0, 0, 0};
    report.session = training.session({0, 0, 0});
    report.time = Seconds{1};
    report.energy = Joules{100};
    return report;
  };
  const auto refused = [&](const std::function<void(IterationReport&)>& spoil) {
    IterationReport report = good();
    spoil(report);
    return !played.job.report(report, now).ok();
  };
  EXPECT_TRUE(refused([](auto& r) { r.coordinates.stage = 4; }));
  EXPECT_TRUE(refused([](auto& r) { r.coordinates.data = -1; }));
  EXPECT_TRUE(refused([](auto& r) { r.session = "other"; }));
  EXPECT_TRUE(refused([](auto& r) { r.time = Seconds{std::nan("")}; }));
  EXPECT_TRUE(refused([](auto& r) { r.time = Seconds{-1}; }));
  EXPECT_TRUE(refused([](auto& r) { r.iteration = -5; }));
  EXPECT_TRUE(refused([](auto& r) {
    r.instructions = {
        {.kind = InstructionKind::kWeight, .count = 1, .time = Seconds{1}, .energy = Joules{1}}};
  }));
  EXPECT_TRUE(refused([](auto& r) {
    r.instructions = {
        {.kind = InstructionKind::kForward, .count = 7, .time = Seconds{1}, .energy = Joules{1}}};
  }));
  EXPECT_FALSE(played.job.set_straggler({.pipeline = 0, .factor = 0.5}, now).ok());
  EXPECT_FALSE(played.job.set_straggler({.pipeline = 0, .factor = 1e9}, now).ok());
  EXPECT_FALSE(played.job.set_straggler({.pipeline = 7, .factor = 1.2}, now).ok());
  EXPECT_FALSE(
      played.job.set_straggler({.pipeline = 0, .factor = 1.2, .until = now - Seconds{1}}, now)
          .ok());
  // A single rank that is far ahead of all others is ignored.
  played.training.change_report = [](IterationReport& r) {
    if (r.coordinates == RankCoordinates{1, 3, 0} && r.iteration % 2 == 1)
      r.iteration += 1'000'000'000;
  };
  ASSERT_TRUE(played.running());
  played.settle();
  EXPECT_LT(training.last().energy, training.iterations()[0].energy * 0.93);
}

TEST(Job, TwoRanksMayNotHoldOnePlace) {
  Played played(small_spec());
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  const Seconds now = played.training.now();
  RankRegistration other = played.training.registration({0, 1, 0});
  ASSERT_TRUE(played.job.register_rank(other, now).ok()) << "the same again is harmless";
  other.session = "another process";
  EXPECT_TRUE(played.job.register_rank(other, now)->gathers);
  EXPECT_EQ(played.job.session({0, 1, 0}), played.training.session({0, 1, 0}));
  EXPECT_FALSE(played.job.register_rank(other, now + Job::kSilence * 1.01)->gathers)
      << "a rank that falls silent loses its place";
  EXPECT_EQ(played.job.session({0, 1, 0}), "another process");
}

TEST(Job, RanksThatNeverComeAreNamed) {
  const JobSpec spec = small_spec();
  Job job = *Job::create(spec, Seconds{1000});
  PlayedTraining training(spec, truth_of(spec), {});
  ASSERT_TRUE(job.register_rank(training.registration({0, 0, 0}), Seconds{1000}).ok());
  job.tick(Seconds{1100});
  EXPECT_TRUE(job.take_effects().events.empty());
  job.tick(Seconds{1400});
  const JobEffects effects = job.take_effects();
  ASSERT_EQ(effects.events.size(), 1U);
  EXPECT_NE(effects.events[0].text.find("7 of 8 ranks"), std::string::npos);
  EXPECT_EQ(job.missing(100).size(), 7U);
}

TEST(Job, IterationsWithoutAllRanksAreForgotten) {
  Played played(small_spec(4));
  const std::vector<RankCoordinates> places = played.training.places();
  for (const RankCoordinates coordinates : places) {
    if (coordinates == places.back()) continue;
    ASSERT_TRUE(
        played.job.register_rank(played.training.registration(coordinates), played.training.now())
            .ok());
  }
  played.training.slow[{1, 2}] = 1.5;
  played.training.run(played.job, 30);
  played.training.slow.clear();
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  played.training.run(played.job, 1);
  EXPECT_TRUE(played.job.status().stragglers.empty()) << "what was late before does not count";
}

TEST(Job, StaysAtAllMaxWithoutEnergies) {
  Played played(small_spec());
  played.training.change_report = [](IterationReport& r) {
    for (InstructionTotals& totals : r.instructions) totals.energy.value = std::nan("");
  };
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  played.training.run(played.job, 40);
  EXPECT_EQ(played.job.phase(), JobPhase::kProfiling);
  EXPECT_NEAR(played.training.last().time.value, played.training.iterations()[0].time.value, 1e-9);
  ASSERT_FALSE(played.training.events.empty());
  EXPECT_NE(played.training.events.back().text.find("no rank of stage 0"), std::string::npos);
}

TEST(Job, TensorShardsAreSummedInEnergyAndTheSlowestInTime) {
  JobSpec spec = small_spec(2, 4);
  spec.shape.tensor = 2;
  Played played(spec);
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  const Profile measured = played.job.profile();
  const Profile truth = truth_of(spec);
  for (const InstructionProfile& entry : measured.entries())
    for (const OperatingPoint& point : entry.points) {
      const auto points = truth.points(entry.stage, 0, entry.kind);
      const auto same = std::ranges::find(points, point.clock, &OperatingPoint::clock);
      EXPECT_NEAR(point.time / same->time, 1, 0.005);
      EXPECT_NEAR(point.energy / same->energy, 1, 0.005) << "joules are per GPU";
    }
}

TEST(Job, SaysThatItsFiguresAreOfSimulatedGpusAlsoAfterARestart) {
  for (const bool simulated : {false, true}) {
    Played played(small_spec());
    for (const RankCoordinates coordinates : played.training.places()) {
      RankRegistration rank = played.training.registration(coordinates);
      rank.simulated = simulated && coordinates == RankCoordinates{1, 2, 0};
      ASSERT_TRUE(played.job.register_rank(rank, played.training.now()).ok());
    }
    played.training.take_effects_of(played.job);
    played.training.run(played.job, 3);
    ASSERT_EQ(played.job.phase(), JobPhase::kProfiling);
    ASSERT_TRUE(played.restart_server().ok());
    EXPECT_EQ(played.job.status().synthetic, simulated);
    EXPECT_EQ(played.job.profile().is_synthetic(), simulated);
    ASSERT_TRUE(played.running());
    EXPECT_EQ(played.job.profile().is_synthetic(), simulated) << "what was measured of them";
    ASSERT_TRUE(played.restart_server().ok());
    EXPECT_EQ(played.job.profile().is_synthetic(), simulated);
    EXPECT_EQ(played.job.status().synthetic, simulated);
  }
}

TEST(Job, SaysThatTheProfileItWasGivenIsSynthetic) {
  JobSpec spec = small_spec();
  spec.profile = truth_of(spec);
  spec.blocking_power = Watts{80};
  ASSERT_TRUE(spec.profile->is_synthetic());
  Played played(spec);
  EXPECT_TRUE(played.job.status().synthetic) << "before the first rank";
  EXPECT_TRUE(parse_job_spec(job_spec_json(spec))->profile->is_synthetic());
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  EXPECT_TRUE(played.plans_anew_when_slower(1)) << "its costs are others";
  EXPECT_TRUE(played.job.profile().is_synthetic());
  EXPECT_TRUE(played.job.characterize_request().profile.is_synthetic());
  const auto status = job_status_json(played.job, [](Seconds at) { return at; });
  EXPECT_EQ(status["synthetic"], true) << status;
}

TEST(Job, TellsOnceWhereClocksAreNotSetAndLearnsNothingThere) {
  Played played(small_spec());
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  const std::string profile = profile_csv(played.job.profile());
  const std::size_t before = played.training.events.size();
  played.training.change_report = [&](IterationReport& report) {
    report.known = played.job.status().version;
    if (report.coordinates.stage != 2) return;
    report.version = 0;
    for (InstructionTotals& total : report.instructions) total.time = total.time * 2;
  };
  played.training.run(played.job, 40);
  EXPECT_EQ(played.job.status().ranks_not_set, 2);
  EXPECT_EQ(played.job.phase(), JobPhase::kRunning) << "no drift, nothing rolled back";
  EXPECT_EQ(profile_csv(played.job.profile()), profile);
  ASSERT_EQ(played.training.events.size(), before + 1);
  EXPECT_NE(played.training.events.back().text.find("clocks are not set at stage 2"),
            std::string::npos);
  played.training.change_report = [](IterationReport&) {};
  played.training.run(played.job, 5);
  EXPECT_EQ(played.job.status().ranks_not_set, 0);
  EXPECT_EQ(played.training.events.back().text, "all ranks set their clocks again");
}

TEST(Job, TellsAgainWhereClocksAreNotSetAfterANewStart) {
  Played played(small_spec());
  const auto told = [&] {
    return std::ranges::count_if(played.training.events, [](const JobEvent& event) {
      return event.text.find("clocks are not set at stage 2") != std::string::npos &&
             event.text.find(": the policy?says no; ") != std::string::npos;
    });
  };
  played.training.change_report = [&](IterationReport& report) {
    report.known = played.job.status().version;
    if (report.coordinates.stage != 2) return;
    report.version = 0;
    report.refusal = "the policy\nsays no";
  };
  for (int start = 1; start <= 2; ++start) {
    if (start == 2) played.training.start_again("second", 0);
    ASSERT_TRUE(played.training.register_all(played.job).ok());
    EXPECT_EQ(played.job.status().ranks_not_set, 0);
    played.training.run(played.job, 40);
    EXPECT_EQ(told(), start);
  }
}

}  // namespace
}  // namespace harpe::training
