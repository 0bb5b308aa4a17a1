#include "harpe/plan/frontier/frontier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harpe/plan/frontier/random_pipelines_testing.h"
#include "harpe/plan/frontier/verify.h"

namespace harpe::plan {
namespace {

TEST(Frontier, EveryPlanAndBoundIsAcceptedByTheChecker) {
  for (unsigned seed = 0; seed < seeds(200); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Case& c = kCases[seed % std::size(kCases)];
    const Profile profile = random_profile(random, c.stages, c.chunks, 12, c.split);
    const Pipeline pipeline = random_pipeline(random, c);
    const Result<Frontier> frontier = characterize(
        pipeline, profile,
        {.blocking_power = Watts{random.between(0, 120)}, .gpus_per_stage = 1 + random.below(8)});
    ASSERT_TRUE(frontier.ok()) << frontier.error().text();
    const Seconds low = frontier->min_time();
    const Seconds high = frontier->max_time() * 1.1;
    for (int k = 0; k <= 4; ++k) {
      const Seconds deadline = low + (high - low) * (k / 4.0);
      const PlanOptions options{.effort = seed % 8 == 0 ? Effort::kFull : Effort::kQuick};
      for (const bool straggler : {false, true}) {
        const Result<Plan> plan = straggler ? frontier->plan_for_straggler(deadline, options)
                                            : frontier->plan(deadline, options);
        ASSERT_TRUE(plan.ok()) << plan.error().text();
        if (straggler) {
          EXPECT_GE(plan->iteration_time.value, deadline.value * (1 - 1e-12));
        } else {
          EXPECT_LE(plan->iteration_time.value, deadline.value * (1 + 1e-9));
        }
        EXPECT_GE(plan->gap(), 0);
        const Result<Certificate> certificate = frontier->certificate(plan->iteration_time);
        ASSERT_TRUE(certificate.ok());
        const Verification verification = verify_plan(*plan, profile, &*certificate);
        EXPECT_LE(verification.proven_bound->value, plan->iteration_energy.value * (1 + 1e-9));
        EXPECT_EQ(diagnostics_of(verification), "")
            << "at " << plan->iteration_time.value << " s of " << low.value << " to "
            << frontier->max_time().value << " s";
      }
    }
  }
}

// Returns the least effective energy of all assignments that end by a deadline, by trying each.
double brute_force(const Pipeline& pipeline, const Profile& profile, Watts power,
                   Seconds deadline) {
  std::vector<std::span<const OperatingPoint>> options;
  for (const PipelineNode& node : pipeline.nodes()) {
    options.push_back(profile.points(node.stage, node.chunk, node.instruction.kind));
  }
  std::vector<std::size_t> choice(options.size(), 0);
  std::vector<Seconds> durations(options.size());
  double best = std::numeric_limits<double>::infinity();
  while (true) {
    double cost = 0;
    for (std::size_t i = 0; i < options.size(); ++i) {
      durations[i] = options[i][choice[i]].time;
      cost += effective_energy(options[i][choice[i]], power).value;
    }
    if (cost < best && pipeline.earliest(durations).makespan.value <= deadline.value * (1 + 1e-12))
      best = cost;
    std::size_t i = 0;
    while (i < choice.size() && ++choice[i] == options[i].size()) choice[i++] = 0;
    if (i == choice.size()) return best;
  }
}

TEST(Frontier, PlansOfSmallPipelinesAreOptimalOrNearlySo) {
  double excess = 0;
  int plans = 0;
  for (unsigned seed = 0; seed < seeds(60); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed + 500);
    const Profile profile = random_profile(random, 2, 1, 4, false);
    Result<Schedule> schedule = one_f_one_b({.stages = 2, .micro_batches = 2});
    const Pipeline pipeline = Pipeline::build(*schedule).value();
    const Watts power{50};
    const Result<Frontier> frontier = characterize(pipeline, profile, {.blocking_power = power});
    ASSERT_TRUE(frontier.ok());
    for (int k = 0; k <= 3; ++k) {
      const Seconds low = frontier->min_time();
      const Seconds deadline = low + (frontier->max_time() - low) * (k / 3.0);
      const double waiting = 2 * 50 * deadline.value;
      const double optimum = brute_force(pipeline, profile, power, deadline) + waiting;
      const Result<Plan> plan = frontier->plan_for_straggler(deadline);
      ASSERT_TRUE(plan.ok());
      ASSERT_LE(frontier->lower_bound(deadline).value, optimum * (1 + 1e-9));
      ASSERT_LE(frontier->tight_lower_bound(deadline).value, optimum * (1 + 1e-9));
      ASSERT_GE(frontier->tight_lower_bound(deadline), frontier->lower_bound(deadline));
      ASSERT_GE(plan->iteration_energy.value, optimum * (1 - 1e-9));
      excess += plan->iteration_energy.value / optimum - 1;
      ++plans;
    }
  }
  EXPECT_LT(excess / plans, 0.0003);
}

// With enough instructions for loops that share arcs.
TEST(Frontier, NoPlanIsBelowTheTightBound) {
  constexpr Case kSmall[] = {{"1f1b", 2, 3, 1, false},
                             {"gpipe", 3, 2, 1, false},
                             {"zb-h1", 2, 2, 1, true},
                             {"1f1b", 3, 2, 1, false}};
  double gained = 0;
  for (unsigned seed = 0; seed < seeds(600); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed + 900);
    const Case& c = kSmall[seed % std::size(kSmall)];
    const Profile profile = random_profile(random, c.stages, c.chunks, 2, c.split);
    const Pipeline pipeline =
        Pipeline::build(
            make_schedule(c.schedule, {.stages = c.stages, .micro_batches = c.micro_batches})
                .value())
            .value();
    const Watts power{50};
    const Frontier frontier = characterize(pipeline, profile, {.blocking_power = power}).value();
    for (const double share : {0.0, 0.2, 0.5}) {
      const Seconds low = frontier.min_time();
      const Seconds deadline = low + (frontier.max_time() - low) * share;
      const double waiting = c.stages * 50 * deadline.value;
      const double optimum = brute_force(pipeline, profile, power, deadline) + waiting;
      const double tight = frontier.tight_lower_bound(deadline).value;
      ASSERT_LE(tight, optimum * (1 + 1e-9));
      gained += tight / frontier.lower_bound(deadline).value - 1;
    }
  }
  EXPECT_GT(gained, 0.01);
}

TEST(Frontier, FallsAndIsConvexUpToTheLeastEnergy) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed + 900);
    const Case& c = kCases[seed % std::size(kCases)];
    const Profile profile = random_profile(random, c.stages, c.chunks, 10, c.split);
    const Result<Frontier> frontier =
        characterize(random_pipeline(random, c), profile, {.blocking_power = 40_W});
    ASSERT_TRUE(frontier.ok());
    const auto points = frontier->points();
    for (std::size_t i = 2; i < points.size(); ++i) {
      const double before = (points[i - 1].lower_bound - points[i - 2].lower_bound) /
                            Joules{(points[i - 1].time - points[i - 2].time).value};
      const double after = (points[i].lower_bound - points[i - 1].lower_bound) /
                           Joules{(points[i].time - points[i - 1].time).value};
      EXPECT_LE(before, after + 1e-6 * std::abs(after));
    }
    for (const FrontierPoint& point : points) {
      EXPECT_GE(point.lower_bound.value,
                frontier->lower_bound(frontier->least_energy_time()).value * (1 - 1e-12));
    }
  }
}

TEST(Frontier, PlansAlongItHoldAndAreNoWorseThanQuickOnes) {
  Joules along{0}, quick{0};
  for (unsigned seed = 0; seed < seeds(24); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed + 900);
    const Case& c = kCases[seed % std::size(kCases)];
    const Pipeline pipeline = random_pipeline(random, c);
    const Profile profile = random_profile(random, c.stages, c.chunks, 8, c.split);
    const auto frontier = characterize(pipeline, profile, {.blocking_power = 60_W});
    ASSERT_TRUE(frontier.ok());
    std::vector<Seconds> deadlines;
    const Seconds least = frontier->least_energy_time();
    for (int i = 0; i <= 6; ++i)
      deadlines.push_back(frontier->min_time() + (least - frontier->min_time()) * (i / 6.0));
    deadlines.push_back(least * 1.5);  // waiting until then would cost more
    const auto plans = frontier->plans_along(deadlines);
    ASSERT_TRUE(plans.ok());
    ASSERT_EQ(plans->size(), deadlines.size());
    for (std::size_t i = 0; i < deadlines.size(); ++i) {
      const Plan& plan = (*plans)[i];
      EXPECT_LE(plan.iteration_time, std::min(deadlines[i], least) * (1 + 1e-9));
      EXPECT_LE(frontier->lower_bound(plan.iteration_time), plan.iteration_energy * (1 + 1e-9));
      EXPECT_EQ(diagnostics_of(verify_plan(plan, pipeline.schedule(), profile, nullptr)), "");
      along += plan.iteration_energy;
      quick += frontier->plan(deadlines[i], {.effort = Effort::kQuick})->iteration_energy;
    }
    const auto again = frontier->plans_along(deadlines);
    for (std::size_t i = 0; i < deadlines.size(); ++i)
      EXPECT_EQ((*again)[i].instructions, (*plans)[i].instructions);
  }
  EXPECT_LE(along, quick * (1 + 1e-9));
}

TEST(Frontier, FewPointsStayAsNearToTheBoundAsAsked) {
  Random random(7);
  const auto frontier =
      characterize(one_f_one_b({.stages = 4, .micro_batches = 12}),
                   random_profile(random, 4, 1, 12, false), {.blocking_power = 60_W});
  ASSERT_TRUE(frontier.ok());
  const std::vector<FrontierPoint> all = frontier->points();
  for (const double tolerance : {0.0, 1e-6, 1e-3, 1.0}) {
    const std::vector<FrontierPoint> few = frontier->points(tolerance);
    EXPECT_EQ(few.front().time, all.front().time);
    EXPECT_EQ(few.back().time, all.back().time);
    std::size_t next = 1;
    for (const FrontierPoint& point : all) {
      while (few[next].time < point.time) ++next;
      const FrontierPoint& a = few[next - 1];
      const FrontierPoint& b = few[next];
      const Joules line = a.lower_bound + (point.time - a.time) / (b.time - a.time) *
                                              (b.lower_bound - a.lower_bound);
      EXPECT_LE(line, point.lower_bound * (1 + tolerance + 1e-12));
    }
  }
  EXPECT_LE(frontier->points(1.0).size(), 3u);
  EXPECT_LT(frontier->points(1e-3).size(), all.size());
}

TEST(Frontier, ScalesExactlyWithTheUnitOfEnergy) {
  for (const double unit : {0x1p-40, 0x1p-10, 0x1p10, 0x1p40}) {
    Random random(7), same(7);
    const Profile one = random_profile(random, 4, 1, 20, false);
    const Profile other = random_profile(same, 4, 1, 20, false, unit);
    Result<Schedule> schedule = one_f_one_b({.stages = 4, .micro_batches = 6});
    const Pipeline pipeline = Pipeline::build(*schedule).value();
    const Frontier a = characterize(pipeline, one, {.blocking_power = 60_W}).value();
    const Frontier b = characterize(pipeline, other, {.blocking_power = 60_W * unit}).value();
    ASSERT_EQ(a.min_time().value, b.min_time().value);
    ASSERT_EQ(a.least_energy_time().value, b.least_energy_time().value);
    for (const double slowdown : {1.0, 1.03, 1.1}) {
      const Plan p = a.plan(a.min_time() * slowdown).value();
      const Plan q = b.plan(b.min_time() * slowdown).value();
      EXPECT_DOUBLE_EQ(p.iteration_energy.value * unit, q.iteration_energy.value);
      for (std::size_t s = 0; s < p.instructions.size(); ++s) {
        for (std::size_t i = 0; i < p.instructions[s].size(); ++i) {
          ASSERT_EQ(p.instructions[s][i].clock, q.instructions[s][i].clock);
        }
      }
    }
  }
}

Seconds makespan_of(const Plan& plan) {
  Seconds end{0};
  for (const auto& stage : plan.instructions)
    for (const PlannedInstruction& i : stage) end = std::max(end, i.start + i.time);
  return end;
}

TEST(Frontier, KeepsThePowerCap) {
  Random random(11);
  const Profile profile = random_profile(random, 4, 1, 20, false);
  Result<Schedule> schedule = one_f_one_b({.stages = 4, .micro_batches = 8});
  const Frontier frontier =
      characterize(schedule, profile, {.blocking_power = 30_W, .gpus_per_stage = 2}).value();
  const Plan fastest = frontier.plan(frontier.min_time()).value();
  const Watts most = fastest.iteration_energy / fastest.iteration_time;
  for (const double share : {1.5, 1.0, 0.9, 0.7, 0.5}) {
    const Watts cap = most * share;
    if (!(cap > 4 * 2 * 30_W)) continue;
    const Result<Plan> plan = frontier.plan_for_power_cap(cap);
    const Plan slowest = frontier.plan_for_straggler(frontier.max_time()).value();
    const Seconds end = makespan_of(slowest);
    const Joules waiting = 8 * 30_W * (slowest.iteration_time - end);
    const Watts least = (slowest.iteration_energy - waiting) / end;
    if (least > cap) {
      ASSERT_FALSE(plan.ok());
      EXPECT_NE(plan.error().text().find("the slowest plan draws"), std::string::npos);
      continue;
    }
    ASSERT_TRUE(plan.ok());
    EXPECT_LE((plan->iteration_energy / plan->iteration_time).value, cap.value * (1 + 1e-12));
    EXPECT_EQ(plan->iteration_time, makespan_of(*plan))
        << "training does not wait between iterations";
  }
  const Result<Plan> impossible = frontier.plan_for_power_cap(200_W);
  ASSERT_FALSE(impossible.ok());
  EXPECT_EQ(impossible.error().code, ErrorCode::kInfeasible);
  EXPECT_NE(impossible.error().text().find("240 W while they wait"), std::string::npos)
      << impossible.error().text();
}

TEST(Frontier, SaysWhatIsPossibleBelowTheFastest) {
  Random random(12);
  const Profile profile = random_profile(random, 2, 1, 5, false);
  Result<Schedule> schedule = one_f_one_b({.stages = 2, .micro_batches = 4});
  const Frontier frontier = characterize(schedule, profile, {}).value();
  const Result<Plan> plan = frontier.plan(frontier.min_time() * 0.999);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::kInfeasible);
  EXPECT_NE(plan.error().text().find("the fastest takes"), std::string::npos);
  EXPECT_TRUE(frontier.plan(frontier.min_time()).ok());
}

TEST(Frontier, NamesStagesAndRowsThatTheProfileLacks) {
  const auto error_of = [](int profile_stages) {
    Random random(13);
    const Profile profile = random_profile(random, profile_stages, 1, 5, false);
    const auto frontier = characterize(zb_h1({.stages = 3, .micro_batches = 4}), profile, {});
    return frontier.ok() ? std::string() : frontier.error().text();
  };
  EXPECT_EQ(error_of(2), "profile: has 2 stages, fewer than the 3 of the schedule");
  EXPECT_EQ(error_of(3).find("profile: no weight rows for stages 0 to 2, which the schedule needs"),
            0U)
      << error_of(3);
}

TEST(Frontier, PlansOneTwoOrThreeClocksAndClocksThatHardlyMatter) {
  std::vector<InstructionProfile> entries;
  const auto add = [&](int stage, InstructionKind kind, std::vector<OperatingPoint> points) {
    entries.push_back({.stage = stage, .chunk = 0, .kind = kind, .points = std::move(points)});
  };
  add(0, InstructionKind::kForward, {{1410_MHz, 0.005_s, 2_J}});
  add(0, InstructionKind::kBackward, {{1200_MHz, 0.011_s, 3_J}, {1410_MHz, 0.010_s, 4_J}});
  add(1, InstructionKind::kForward,
      {{900_MHz, 0.0060001_s, 1_J}, {1200_MHz, 0.00600005_s, 2_J}, {1410_MHz, 0.006_s, 4_J}});
  add(1, InstructionKind::kBackward, {{1410_MHz, 0.012_s, 4_J}});
  const Profile profile(std::move(entries));
  Result<Schedule> schedule = one_f_one_b({.stages = 2, .micro_batches = 5});
  const Frontier frontier = characterize(schedule, profile, {.blocking_power = 80_W}).value();
  for (const double slowdown : {1.0, 1.000001, 1.01, 1.2}) {
    const Plan plan = frontier.plan(frontier.min_time() * slowdown).value();
    const Certificate certificate = frontier.certificate(plan.iteration_time).value();
    EXPECT_EQ(diagnostics_of(verify_plan(plan, profile, &certificate)), "");
  }
}

}  // namespace
}  // namespace harpe::plan
