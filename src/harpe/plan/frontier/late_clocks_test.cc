// Plans whose clocks come late, and lower bounds of their energy.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>

#include "harpe/plan/frontier/planned_work_testing.h"
#include "harpe/plan/frontier/predict.h"
#include "harpe/plan/frontier/random_pipelines_testing.h"
#include "harpe/plan/frontier/steady_plans.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::plan {
namespace {

// A change of the clock along a stage of a plan.
struct Change {
  Seconds at;
  bool late_cost_is_known;
};
std::vector<Change> changes_of(const std::vector<PlannedInstruction>& list) {
  std::vector<Change> changes;
  Megahertz clock;
  for (const PlannedInstruction& i : list) {
    if (i.clock.value > 0) clock = i.clock;
  }
  Seconds asked{-1};
  for (const PlannedInstruction& i : list) {
    if (i.kind == InstructionKind::kSwitch) asked = i.start;
    if (i.clock.value == 0) continue;
    if (i.clock != clock) changes.push_back({asked < 0_s ? i.start : asked, asked >= 0_s});
    clock = i.clock;
    asked = Seconds{-1};
  }
  return changes;
}

TEST(LateClocks, PlansWithLateClocksHoldAndKeepTheDwell) {
  for (unsigned seed = 0; seed < seeds(24); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed + 1300);
    const Case& c = kCases[seed % std::size(kCases)];
    const Profile profile = random_profile(random, c.stages, c.chunks, 12, c.split);
    const Frontier frontier =
        characterize(random_pipeline(random, c), profile, {.blocking_power = 60_W}).value();
    const PlanOptions options{.effort = seed % 4 == 0 ? Effort::kFull : Effort::kQuick,
                              .switch_latency = 10_s * 1e-3,
                              .min_dwell = seed % 2 == 0 ? 0_s : 60_s * 1e-3};
    for (const double slowdown : {1.2, 1.6}) {
      const Seconds deadline = frontier.min_time() * slowdown;
      const Result<Plan> plan = frontier.plan(deadline, options);
      if (!plan.ok()) {
        EXPECT_EQ(plan.error().code, ErrorCode::kInfeasible);
        continue;
      }
      EXPECT_LE(plan->iteration_time.value, deadline.value * (1 + 1e-9));
      const Plan free = frontier.plan(deadline, {.effort = options.effort}).value();
      EXPECT_GE(plan->iteration_energy.value, free.lower_bound.value);
      const Joules bound = frontier.tight_lower_bound(plan->iteration_time, options);
      EXPECT_GE(bound, plan->lower_bound);
      EXPECT_LE(bound.value, plan->iteration_energy.value * (1 + 1e-12));
      for (const PlanOptions& proven : {PlanOptions{}, options}) {
        const Certificate certificate = frontier.certificate(plan->iteration_time, proven).value();
        const Verification found = verify_plan(*plan, profile, &certificate);
        EXPECT_EQ(diagnostics_of(found), "");
        if (!proven.switching()) continue;
        ASSERT_TRUE(found.proven_bound);
        EXPECT_NEAR(found.proven_bound->value, bound.value, 1e-7 * bound.value);
      }
      EXPECT_LE(
          predict(*plan, profile, {.switch_latency = options.switch_latency})->iteration_time.value,
          plan->iteration_time.value * (1 + 1e-9));
      for (const auto& list : plan->instructions) {
        const auto changes = changes_of(list);
        for (std::size_t i = 1; i < changes.size(); ++i) {
          EXPECT_GE((changes[i].at - changes[i - 1].at).value,
                    options.min_dwell.value * (1 - 1e-9));
        }
      }
    }
  }
}

TEST(LateClocks, TheFastestPlanWithLateClocksIsNoSlowerThanAllMax) {
  Random random(77);
  const Profile profile = random_profile(random, 4, 1, 12, false);
  const Frontier frontier = characterize(one_f_one_b({.stages = 4, .micro_batches = 6}), profile,
                                         {.blocking_power = 60_W})
                                .value();
  const PlanOptions options{.switch_latency = 5_s * 1e-3, .min_dwell = 0_s};
  const Plan fastest = frontier.fastest_plan(options).value();
  EXPECT_LE(fastest.iteration_time.value, frontier.all_max().iteration_time.value * (1 + 1e-9));
  EXPECT_LT(fastest.iteration_energy.value, frontier.all_max().iteration_energy.value);
  EXPECT_EQ(diagnostics_of(verify_plan(fastest, profile, nullptr)), "");
  const Plan same = frontier.plan(fastest.iteration_time, options).value();
  EXPECT_LE(same.iteration_energy.value, fastest.iteration_energy.value * (1 + 1e-9));
}

/// Returns smooth times and energies at a few clocks. The highest clocks differ from instruction to
/// instruction.
Profile ragged_profile(Random& random, int stages, int clocks) {
  std::vector<InstructionProfile> entries;
  for (int stage = 0; stage < stages; ++stage) {
    for (const auto kind : {InstructionKind::kForward, InstructionKind::kBackward}) {
      InstructionProfile entry{.stage = stage, .chunk = 0, .kind = kind, .points = {}};
      const double size =
          (kind == InstructionKind::kForward ? 0.03 : 0.06) * random.between(1, 1.2);
      const double memory_bound = random.between(0.2, 0.5);
      const int lowest = 1410 - 90 * (clocks - 1) - 15 * random.below(6);
      for (int k = 0; k < clocks; ++k) {
        const int clock = lowest + 90 * k;
        const double seconds = size * (memory_bound + (1 - memory_bound) * 1410 / clock);
        const double watts = 100 + 250 * std::pow(clock / 1410.0, 2.5);
        entry.points.push_back({Megahertz{clock}, Seconds{seconds}, Joules{watts * seconds}});
      }
      entries.push_back(std::move(entry));
    }
  }
  return Profile(std::move(entries));
}

TEST(LateClocks, ChangesBetweenHighestClocksThatDifferAreLateToo) {
  for (unsigned seed = 0; seed < seeds(3); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed + 2100);
    const Profile profile = ragged_profile(random, 4, 5);
    const Frontier frontier = characterize(one_f_one_b({.stages = 4, .micro_batches = 3}), profile,
                                           {.blocking_power = 60_W})
                                  .value();
    const PlanOptions options{.effort = Effort::kQuick, .switch_latency = 0.01_s};
    const Plan all_max = frontier.all_max(options);
    EXPECT_GT(all_max.iteration_time, frontier.all_max().iteration_time);
    EXPECT_EQ(diagnostics_of(verify_plan(all_max, profile, nullptr)), "");
    EXPECT_LE(predict(all_max, profile, {.switch_latency = options.switch_latency})
                  .value()
                  .iteration_time.value,
              all_max.iteration_time.value * (1 + 1e-9));
    EXPECT_LE(frontier.fastest_plan(options).value().iteration_time.value,
              all_max.iteration_time.value * (1 + 1e-9));
  }
}

/// Returns makespan and effective energy of all assignments with late clocks.
std::vector<std::pair<double, double>> all_with_late_clocks(const Pipeline& pipeline,
                                                            const Profile& profile, Watts power,
                                                            Seconds latency) {
  const auto nodes = pipeline.nodes();
  std::vector<std::span<const OperatingPoint>> options;
  for (const PipelineNode& node : nodes)
    options.push_back(profile.points(node.stage, 0, node.instruction.kind));
  std::vector<std::size_t> choice(options.size(), 0);
  std::vector<Seconds> durations(options.size());
  std::vector<std::pair<double, double>> all;
  while (true) {
    double cost = 0;
    // Nodes are in the order of the stages and their lists.
    for (std::size_t first = 0, i = 0; first < options.size(); first = i) {
      std::vector<LateRun> runs;
      for (; i < options.size() && nodes[i].stage == nodes[first].stage; ++i)
        runs.push_back({options[i], options[i][choice[i]]});
      const std::vector<LateCost> late = late_costs(runs, power, latency);
      for (std::size_t k = 0; k < runs.size(); ++k) {
        const OperatingPoint& now = runs[k].now;
        durations[first + k] = now.time + Seconds{static_cast<double>(late[k].time)};
        cost += effective_energy(now, power).value + static_cast<double>(late[k].energy);
      }
    }
    all.emplace_back(pipeline.earliest(durations).makespan.value, cost);
    std::size_t i = 0;
    while (i < choice.size() && ++choice[i] == options[i].size()) choice[i++] = 0;
    if (i == choice.size()) return all;
  }
}

TEST(LateClocks, PlansWithLateClocksAreTheFastestAndNearlyOptimal) {
  const Watts power{60};
  // Forwards take 0.03 to 0.06 s: the last two latencies can outlast one forward, the last one two.
  constexpr double kLatencies[] = {0.01, 0.04, 0.09};
  double excess = 0, below = 0, free_below = 0;
  int plans = 0;
  for (unsigned seed = 0; seed < seeds(6); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed + 1700);
    const Profile profile = ragged_profile(random, 2, 3);
    const Pipeline pipeline =
        Pipeline::build(*one_f_one_b({.stages = 2, .micro_batches = 2})).value();
    const Frontier frontier = characterize(pipeline, profile, {.blocking_power = power}).value();
    const PlanOptions options{.effort = Effort::kQuick,
                              .switch_latency = Seconds{kLatencies[seed % std::size(kLatencies)]}};
    const auto all =
        all_with_late_clocks(pipeline, profile, power, options.switch_latency.longest());
    const double fastest = std::ranges::min(all).first;
    EXPECT_NEAR(frontier.fastest_plan(options).value().iteration_time.value, fastest, 1e-9);
    for (const double slowdown : {1.0, 1.02, 1.05, 1.1}) {
      const Seconds deadline{fastest * slowdown + 1e-9};
      double optimum = std::numeric_limits<double>::infinity();
      for (const auto& [time, cost] : all) {
        if (time <= deadline.value) optimum = std::min(optimum, cost + 2 * power.value * time);
      }
      const Plan plan = frontier.plan(deadline, options).value();
      EXPECT_GE(plan.iteration_energy.value, optimum * (1 - 1e-9));
      excess += plan.iteration_energy.value / optimum - 1;
      ++plans;
      const double bound = frontier.tight_lower_bound(deadline, options).value;
      double at_deadline = std::numeric_limits<double>::infinity();
      for (const auto& [time, cost] : all) {
        if (time <= deadline.value)
          at_deadline = std::min(at_deadline, cost + 2 * power.value * deadline.value);
      }
      EXPECT_LE(bound, at_deadline * (1 + 1e-12));
      EXPECT_GE(bound, frontier.lower_bound(deadline).value);
      below += 1 - bound / at_deadline;
      free_below += 1 - frontier.lower_bound(deadline).value / at_deadline;
    }
  }
  EXPECT_LT(excess / plans, 0.0004);
  EXPECT_LT(below, 0.5 * free_below);
}

/// Returns the frontier of one stage and one micro-batch: a forward at 1000 MHz, and a backward
/// with the given points.
Frontier one_forward_and(std::vector<OperatingPoint> backward) {
  Profile profile({{0, 0, InstructionKind::kForward, {{1000_MHz, 0.1_s, 10_J}}},
                   {0, 0, InstructionKind::kBackward, std::move(backward)}});
  return characterize(one_f_one_b({.stages = 1, .micro_batches = 1}), profile, {}).value();
}

TEST(LateClocks, ALateClockCostsWhatTheOldOneTakesLonger) {
  // The backward's clock changes from the forward's, and back in the next iteration.
  const Frontier frontier = one_forward_and({{1000_MHz, 0.4_s, 50_J}, {1200_MHz, 0.2_s, 60_J}});
  const PlanOptions options{.switch_latency = 0.1_s};
  // w = 0.1 / 0.4 of the backward runs at 1000 MHz: 0.05 s longer.
  const Plan plan = frontier.plan(0.36_s, options).value();
  EXPECT_NEAR(plan.iteration_time.value, 0.35, 1e-9);
  EXPECT_EQ(plan.instructions[0][1].kind, InstructionKind::kSwitch);
  EXPECT_NEAR(plan.instructions[0][1].time.value, 0.05, 1e-9);
  const Result<Plan> impossible = frontier.plan(0.34_s, options);
  ASSERT_FALSE(impossible.ok());
  EXPECT_NE(impossible.error().text().find("the fastest found takes 0.35 s"), std::string::npos)
      << impossible.error().text();
}

TEST(LateClocks, ADeadlineThatNoSettingsMeetIsInfeasible) {
  // The backward was not measured at the forward's clock, the lowest of the stage. Its change of
  // clock is always late, so that it takes more than 0.2 s.
  const Frontier frontier = one_forward_and({{1100_MHz, 0.4_s, 50_J}, {1200_MHz, 0.2_s, 60_J}});
  const PlanOptions options{.switch_latency = 0.1_s};
  const Result<Plan> impossible = frontier.plan(0.31_s, options);
  ASSERT_FALSE(impossible.ok());
  EXPECT_EQ(impossible.error().code, ErrorCode::kInfeasible);
  EXPECT_NEAR(frontier.plan(0.36_s, options).value().iteration_time.value, 0.35, 1e-9);
}

/// Returns the frontier of a pipeline too large for branch and bound, with few and coarse clocks.
Frontier ragged_frontier(unsigned seed, int stages, int micro_batches) {
  Random random(seed + 4100);
  return characterize(one_f_one_b({.stages = stages, .micro_batches = micro_batches}),
                      ragged_profile(random, stages, 5 + random.below(4)), {.blocking_power = 60_W})
      .value();
}

TEST(SteadyPlans, RepeatOnePairOfClocksAStageAndCostLessTheSlowerTheyAre) {
  for (unsigned seed = 0; seed < seeds(4); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed + 5200);
    const Pipeline pipeline =
        Pipeline::build(one_f_one_b({.stages = 3, .micro_batches = 8}).value()).value();
    const Problem problem =
        make_problem(pipeline, ragged_profile(random, 3, 8), {.blocking_power = 60_W}).value();
    const SearchOrder layout(problem);
    const LatencyByClock latency(0.01_s);
    const PointCosts costs(layout, latency);
    const std::vector<PointChoices> plans = steady_plans(LateCosts(problem, latency));
    ASSERT_GT(plans.size(), 2U);
    for (std::size_t i = 0; i < plans.size(); ++i) {
      if (i > 0) {
        EXPECT_LT(costs.cost(plans[i]), costs.cost(plans[i - 1]));
      }
      for (int stage = 0; stage < 3; ++stage) {
        std::map<InstructionKind, std::set<int>> settings;
        for (const int node : costs.computations(stage)) {
          settings[pipeline.nodes()[node].instruction.kind].insert(
              costs.choices_of(node)[plans[i][node]].setting);
        }
        for (const auto& [kind, of_kind] : settings) EXPECT_EQ(of_kind.size(), 1U);
      }
    }
  }
}

TEST(SteadyPlans, AreNoneIfForwardsOfAStageHaveNoClockInCommon) {
  std::vector<InstructionProfile> entries;
  for (int stage = 0; stage < 2; ++stage) {
    for (int chunk = 0; chunk < 2; ++chunk) {
      for (const auto kind : {InstructionKind::kForward, InstructionKind::kBackward}) {
        const Megahertz clock{kind == InstructionKind::kForward ? 1200 + 100 * chunk : 1000};
        entries.push_back(
            {.stage = stage, .chunk = chunk, .kind = kind, .points = {{clock, 0.05_s, 10_J}}});
      }
    }
  }
  const Pipeline pipeline =
      Pipeline::build(
          interleaved_one_f_one_b({.stages = 2, .micro_batches = 4, .chunks = 2}).value())
          .value();
  const Problem problem =
      make_problem(pipeline, Profile(std::move(entries), true), {.blocking_power = 60_W}).value();
  EXPECT_TRUE(steady_plans(LateCosts(problem, LatencyByClock(0.01_s))).empty());
}

TEST(LateFrontier, EveryPlanIsAsGoodAsWhatItsDeadlineAloneFinds) {
  constexpr int kPlans = 8;
  constexpr double kBeside = 0.002;  // share of energy that a search for one deadline may save
  for (unsigned seed = 0; seed < seeds(2); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Frontier frontier = ragged_frontier(seed, 3, 8);
    const PlanOptions options{.switch_latency = Seconds{0.002 * std::pow(3, seed % 4)}};
    const Plan fastest = frontier.fastest_plan(options).value();
    const Plan least = frontier.least_energy_plan(options).value();
    std::vector<Seconds> times;
    for (int i = 0; i < kPlans; ++i) {
      times.push_back(fastest.iteration_time +
                      (least.iteration_time - fastest.iteration_time) * (i / (kPlans - 1.0)));
    }
    const std::vector<Plan> along = frontier.plans_along(times, {}, options).value();
    ASSERT_EQ(along.size(), times.size());
    const std::vector<Joules> bounds = frontier.tight_bounds_along(times, options);
    for (std::size_t i = 0; i < times.size(); ++i) {
      EXPECT_LE(along[i].iteration_time.value, times[i].value * (1 + 1e-9));
      EXPECT_EQ(diagnostics_of(verify_plan(along[i], frontier.profile(), nullptr)), "");
      EXPECT_GE(along[i].iteration_energy.value, least.iteration_energy.value * (1 - 1e-9));
      const Plan alone = frontier.plan(times[i], options).value();
      EXPECT_LE(along[i].iteration_energy.value, alone.iteration_energy.value * (1 + kBeside));
      EXPECT_LE(bounds[i].value, alone.iteration_energy.value * (1 + 1e-12));
      EXPECT_GE(bounds[i], frontier.lower_bound(times[i]) * (1 - 1e-12));
      // Bounds from ten flows are nearly as high as the bound from a flow for the deadline.
      EXPECT_GE(bounds[i].value, frontier.tight_lower_bound(times[i], options).value * 0.99);
    }
  }
}

TEST(LateFrontier, FindsAPlanByTheTimeOfTheFastestOne) {
  // Here the search for the fastest plan found a plan that is 3 us faster than all initial plans.
  const Profile profile = synthesize({.gpu = "a100-sxm", .stages = 8}).value();
  const Frontier frontier = characterize(one_f_one_b({.stages = 8, .micro_batches = 12}), profile,
                                         {.blocking_power = 80_W})
                                .value();
  const PlanOptions options{.switch_latency =
                                LatencyByClock({{210_MHz, 0.14_s}, {1410_MHz, 0.012_s}})};
  const Plan fastest = frontier.fastest_plan(options).value();
  const Result<Plan> again = frontier.plan(fastest.iteration_time, options);
  ASSERT_TRUE(again.ok()) << again.error().text();
  EXPECT_EQ(again->iteration_time, fastest.iteration_time);
  const std::vector<Seconds> times{fastest.iteration_time};
  EXPECT_TRUE(frontier.plans_along(times, {}, options).ok());
  EXPECT_FALSE(frontier.plan(fastest.iteration_time - 1_s * 1e-6, options).ok());
}

TEST(LateFrontier, GivesTheSamePlansWhateverWasAskedBefore) {
  const PlanOptions options{.switch_latency = 0.01_s};
  const Frontier one = ragged_frontier(9, 3, 8), other = ragged_frontier(9, 3, 8);
  const Seconds deadline = one.min_time() * 1.1;
  (void)other.plan_for_power_cap(Watts{1e6}, options);
  (void)other.plan(other.min_time() * 1.3, {.effort = Effort::kQuick, .switch_latency = 0.01_s});
  (void)other.plan(other.min_time() * 1.2, options);
  EXPECT_EQ(plan_json(one.plan(deadline, options).value()),
            plan_json(other.plan(deadline, options).value()));
}

TEST(LateFrontier, ASearchThatGoesOnFindsTheSameAgainAndNothingWorse) {
  const Frontier frontier = ragged_frontier(3, 4, 10);
  const Seconds deadline = frontier.min_time() * 1.06;
  PlanOptions options{.switch_latency = 0.01_s};
  const Plan plan = frontier.plan(deadline, options).value();
  std::int64_t windows = 0;
  options.search_windows = 1'000'000;
  options.go_on = [&](const SearchProgress& progress) {
    windows = progress.windows;
    EXPECT_GE(progress.energy, progress.lower_bound);
    return windows < 12'345;
  };
  const Plan searched = frontier.plan(deadline, options).value();
  EXPECT_LE(searched.iteration_energy, plan.iteration_energy);
  EXPECT_GE(windows, 12'345);
  options.search_windows = windows;
  options.go_on = {};
  EXPECT_EQ(plan_json(frontier.plan(deadline, options).value()), plan_json(searched));
}

/// A plan with late clocks, and its proof.
struct ProvenPlan {
  Frontier frontier;
  PlanOptions options;
  Plan plan;
  Certificate certificate;
};
ProvenPlan proven_plan(LatencyByClock latency, double slowdown) {
  Random random(31);
  const Profile profile = ragged_profile(random, 4, 6);
  const Frontier frontier = characterize(one_f_one_b({.stages = 4, .micro_batches = 6}), profile,
                                         {.blocking_power = 60_W, .gpus_per_stage = 2})
                                .value();
  const PlanOptions options{.effort = Effort::kQuick, .switch_latency = std::move(latency)};
  const Plan plan =
      frontier.plan(frontier.fastest_plan(options)->iteration_time * slowdown, options).value();
  return {frontier, options, plan, frontier.certificate(plan.iteration_time, options).value()};
}

TEST(LateCertificate, ProvesTheBoundThatPlansComeNear) {
  const LatencyByClock by_clock(
      {{1410_MHz, 0.002_s}, {1200_MHz, 0.008_s}, {1050_MHz, 0.03_s}, {900_MHz, 0.02_s}});
  for (const double slowdown : {1.0, 1.03, 1.1}) {
    Joules before{0};
    for (const LatencyByClock& latency :
         {LatencyByClock(0.002_s), by_clock, LatencyByClock(0.03_s)}) {
      const ProvenPlan one = proven_plan(latency, slowdown);
      ASSERT_EQ(one.certificate.latency, latency);
      const Verification found = verify_plan(one.plan, one.frontier.profile(), &one.certificate);
      EXPECT_EQ(diagnostics_of(found), "");
      ASSERT_TRUE(found.proven_bound);
      const Joules bound = one.frontier.tight_lower_bound(one.plan.iteration_time, one.options);
      EXPECT_NEAR(found.proven_bound->value / bound.value, 1, 1e-9);
      EXPECT_GT(bound, one.frontier.lower_bound(one.plan.iteration_time) * 1.0005);
      EXPECT_LT(one.plan.iteration_energy, bound * 1.02);
      const Certificate read =
          parse_certificate_json(certificate_json(one.certificate), "c.json").value();
      EXPECT_EQ(read.latency, latency);
      EXPECT_EQ(certificate_json(read), certificate_json(one.certificate));
      // For the same time, the bound is higher if clocks come later.
      const Joules here = one.frontier.tight_lower_bound(one.frontier.min_time() * 1.1,
                                                         {.switch_latency = latency});
      EXPECT_GE(here, before * (1 - 1e-4));
      before = here;
    }
  }
}

TEST(LateCertificate, ProvesWhatClocksCostThatOutlastInstructions) {
  // Computations take 0.03 s or longer.
  Joules before{0};
  for (const Seconds latency : {0.03_s, 0.06_s, 0.12_s}) {
    const ProvenPlan one = proven_plan(latency, 1.05);
    const Verification found = verify_plan(one.plan, one.frontier.profile(), &one.certificate);
    EXPECT_EQ(diagnostics_of(found), "");
    ASSERT_TRUE(found.proven_bound);
    EXPECT_LE(*found.proven_bound, one.plan.iteration_energy);
    const Joules bound = one.frontier.tight_lower_bound(one.plan.iteration_time, one.options);
    EXPECT_NEAR(found.proven_bound->value / bound.value, 1, 1e-9);
    const Joules here = one.frontier.tight_lower_bound(one.frontier.min_time() * 1.2, one.options);
    EXPECT_GE(here, before * (1 - 1e-4));
    before = here;
  }
}

TEST(LateCertificate, IsRefusedForAPlanThatCountsLessOrLeavesOutWhatFits) {
  const ProvenPlan one = proven_plan(0.01_s, 1.04);
  ASSERT_GT(one.plan.clock_changes(), 0);
  const auto refused = [&](const Plan& plan, const Certificate& certificate) {
    return diagnostics_of(verify_plan(plan, one.frontier.profile(), &certificate));
  };
  EXPECT_EQ(refused(one.plan, one.certificate), "");
  Certificate later = one.certificate;
  later.latency = LatencyByClock(0.012_s);
  EXPECT_NE(refused(one.plan, later).find("its setting may be 0.012 s late"), std::string::npos)
      << refused(one.plan, later);
  Certificate greedy = one.certificate;
  for (std::int64_t& longest : greedy.longest) longest -= longest / 3;
  EXPECT_NE(refused(one.plan, greedy).find("leaves out"), std::string::npos);
  Certificate leaking = one.certificate;
  ++leaking.node_flow[1];
  EXPECT_NE(refused(one.plan, leaking).find("not conserved"), std::string::npos);
  Plan boasting = one.plan;
  boasting.lower_bound = one.frontier.tight_lower_bound(one.plan.iteration_time, one.options);
  EXPECT_EQ(refused(boasting, one.certificate), "");
  boasting.lower_bound = boasting.iteration_energy * (1 - 1e-6);
  EXPECT_NE(refused(boasting, one.certificate).find("proves only"), std::string::npos);
}

TEST(LateCertificate, NamesWhatIsNoLatency) {
  const std::string good = certificate_json(proven_plan(0.01_s, 1.04).certificate);
  const std::string latency = "\"latency\": [[0, 0.01]]";
  const std::size_t at = good.find(latency);
  ASSERT_NE(at, std::string::npos);
  for (const auto& [wrong, message] : std::vector<std::pair<std::string, std::string>>{
           {"0.01", "expected a list of [MHz, seconds]"},
           {"[]", "expected a list of [MHz, seconds]"},
           {"[[900]]", "expected [MHz, seconds]"},
           {"[[900, -1]]", "expected seconds from 0"},
           {"[[-3, 1]]", "expected a clock from 0 MHz"},
           {"[[900, 1], [900, 2]]", "this clock appears twice"}}) {
    std::string text = good;
    text.replace(at, latency.size(), "\"latency\": " + wrong);
    const auto read = parse_certificate_json(text, "c.json");
    ASSERT_FALSE(read.ok()) << wrong;
    EXPECT_NE(read.error().text().find(message), std::string::npos) << read.error().text();
  }
}

}  // namespace
}  // namespace harpe::plan
