// Plans of profiles whose points have knobs in addition to a clock.

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/frontier/frontier_json.h"
#include "harpe/plan/frontier/plan_testing.h"
#include "harpe/plan/frontier/predict.h"
#include "harpe/plan/frontier/verify.h"

namespace harpe::plan {
namespace {

using testing::HasSubstr;
using testing::Not;

const Knobs kOverlap{.label = *Label::of("sm12_overlap")};
const Knobs kSlowMemory{.memory_clock = {810}, .power_limit = {250}};

/// Returns a profile of `stages` stages at `clocks` with each of `knobs`, whose effect differs a
/// little from point to point.
Profile knob_profile(std::uint64_t seed, int stages, const std::vector<Knobs>& knobs,
                     const std::vector<int>& clocks = {900, 1050, 1200, 1350}) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> factor(0.9, 1.1);
  std::vector<InstructionProfile> entries;
  for (int stage = 0; stage < stages; ++stage) {
    for (const auto kind : {InstructionKind::kForward, InstructionKind::kBackward}) {
      InstructionProfile& entry = entries.emplace_back();
      entry.stage = stage;
      entry.kind = kind;
      const double size = kind == InstructionKind::kForward ? 0.02 : 0.04;
      for (const Knobs& one : knobs) {
        for (const int clock : clocks) {
          const double seconds = size * factor(random) * (0.3 + 0.7 * 1350 / clock);
          const double watts = factor(random) * (120 + 200 * std::pow(clock / 1350.0, 2.5));
          entry.points.push_back({{clock}, {seconds}, {watts * seconds}, one});
        }
      }
    }
  }
  return Profile(std::move(entries));
}

Profile only(const Profile& profile, const Knobs& knobs) {
  std::vector<InstructionProfile> entries(profile.entries().begin(), profile.entries().end());
  for (InstructionProfile& entry : entries) {
    std::erase_if(entry.points, [&](const OperatingPoint& p) { return p.knobs != knobs; });
  }
  return profile.with_entries(std::move(entries));
}

Frontier frontier_of(const Profile& profile, int micro_batches = 4) {
  return must(
      characterize(one_f_one_b({.stages = profile.stages(), .micro_batches = micro_batches}),
                   profile, {.blocking_power = Watts{60}}));
}

std::vector<std::string> diagnostics(const Plan& plan, const Frontier& frontier) {
  const Certificate certificate = must(frontier.certificate(plan.iteration_time));
  return verify_plan(plan, frontier.profile(), &certificate).diagnostics;
}

/// Returns the least energy of all assignments that end by `deadline` and wait until then, by
/// trying each.
double brute_force(const Frontier& frontier, Seconds deadline) {
  const Pipeline& pipeline = frontier.pipeline();
  std::vector<std::span<const OperatingPoint>> points;
  for (const PipelineNode& node : pipeline.nodes()) {
    points.push_back(frontier.profile().points(node.stage, 0, node.instruction.kind));
  }
  std::vector<std::size_t> choice(points.size(), 0);
  std::vector<Seconds> durations(points.size());
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < choice.size();) {
    double cost = 60 * frontier.profile().stages() * deadline.value;
    for (std::size_t k = 0; k < points.size(); ++k) {
      durations[k] = points[k][choice[k]].time;
      cost += effective_energy(points[k][choice[k]], Watts{60}).value;
    }
    if (cost < best && pipeline.earliest(durations).makespan <= deadline * (1 + 1e-12)) best = cost;
    for (i = 0; i < choice.size() && ++choice[i] == points[i].size(); ++i) choice[i] = 0;
  }
  return best;
}

TEST(KnobPlans, AreNearlyOptimalAndNowhereWorseThanWithEachSetOfKnobsAlone) {
  double excess = 0;
  int plans = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    const Profile profile = knob_profile(seed, 2, {{}, kOverlap}, {1000, 1300});
    const Frontier both = frontier_of(profile, 2);
    for (const double slowdown : {1.0, 1.1, 1.25}) {
      const Seconds deadline = both.min_time() * slowdown;
      const double optimum = brute_force(both, deadline);
      const Plan plan = must(both.plan_for_straggler(deadline));
      EXPECT_LE(both.lower_bound(deadline).value, optimum * (1 + 1e-9));
      EXPECT_GE(plan.iteration_energy.value, optimum * (1 - 1e-9));
      excess += plan.iteration_energy.value / optimum - 1;
      ++plans;
      EXPECT_THAT(diagnostics(plan, both), testing::IsEmpty());
    }
    for (const Knobs& knobs : {Knobs{}, kOverlap}) {
      const Frontier alone = frontier_of(only(profile, knobs), 2);
      EXPECT_LE(both.min_time(), alone.min_time());
      for (const double slowdown : {1.0, 1.1, 1.25}) {
        const Seconds deadline = alone.min_time() * slowdown;
        EXPECT_LE(both.lower_bound(deadline).value, alone.lower_bound(deadline).value * (1 + 1e-9));
        EXPECT_LE(must(both.plan_for_straggler(deadline)).iteration_energy.value,
                  must(alone.plan_for_straggler(deadline)).iteration_energy.value * (1 + 1e-3));
      }
    }
  }
  EXPECT_LT(excess / plans, 0.0003);
}

/// Returns the profile with a separate clock for every setting, in the same order.
Profile with_clocks_for_settings(const Profile& profile,
                                 std::map<InstructionSetting, Megahertz>& clock_of) {
  std::vector<InstructionProfile> entries(profile.entries().begin(), profile.entries().end());
  for (const InstructionProfile& entry : entries) {
    for (const OperatingPoint& point : entry.points) clock_of[point.setting()] = {};
  }
  int next = 100;
  for (auto& [setting, clock] : clock_of) clock = {next++};
  for (InstructionProfile& entry : entries) {
    for (OperatingPoint& point : entry.points) {
      point.clock = clock_of.at(point.setting());
      point.knobs = {};
    }
  }
  return profile.with_entries(std::move(entries));
}

TEST(KnobPlans, AreThoseOfClocksInTheirPlace) {
  constexpr std::uint64_t kSeeds = HARPE_UNDER_SANITIZERS ? 1 : 3;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const Profile profile = knob_profile(seed, 3, {{}, kOverlap, kSlowMemory});
    std::map<InstructionSetting, Megahertz> clock_of;
    const Frontier frontier = frontier_of(profile);
    const Frontier of_clocks = frontier_of(with_clocks_for_settings(profile, clock_of));
    EXPECT_EQ(frontier.min_time(), of_clocks.min_time());
    for (const PlanOptions& options :
         {PlanOptions{}, PlanOptions{.effort = Effort::kQuick, .switch_latency = 0.005_s}}) {
      for (const double slowdown : {1.1, 1.3}) {
        const Seconds deadline = frontier.min_time() * slowdown;
        Plan plan = must(frontier.plan(deadline, options));
        EXPECT_THAT(diagnostics(plan, frontier), testing::IsEmpty());
        EXPECT_TRUE(plan.has_knobs());
        const Plan expected = must(of_clocks.plan(deadline, options));
        if (options.switching()) continue;  // all-max, from which that search starts, differs
        EXPECT_EQ(plan.clock_changes(), expected.clock_changes());
        for (auto& list : plan.instructions) {
          for (PlannedInstruction& i : list) {
            i.clock = clock_of.at(i.setting());
            i.knobs = {};
          }
        }
        EXPECT_EQ(plan_json(plan), plan_json(expected));
      }
    }
  }
}

TEST(KnobPlans, AllMaxHasNoKnobsWhereThatWasMeasured) {
  const Profile profile = knob_profile(1, 2, {{}, kOverlap, kSlowMemory});
  for (const PlanOptions& options : {PlanOptions{}, PlanOptions{.switch_latency = 0.005_s}}) {
    for (const auto& list : frontier_of(profile).all_max(options).instructions) {
      for (const PlannedInstruction& i : list)
        EXPECT_EQ(i.setting(), (InstructionSetting{{1350}, {}}));
    }
  }
}

TEST(KnobPlans, ComeBackFromTheirSettings) {
  const Frontier frontier = frontier_of(knob_profile(3, 3, {{}, kOverlap, kSlowMemory}));
  for (const PlanOptions& options : {PlanOptions{}, PlanOptions{.switch_latency = 0.005_s}}) {
    const Plan plan = must(frontier.plan(frontier.min_time() * 1.2, options));
    std::vector<std::vector<Megahertz>> clocks;
    std::vector<std::vector<Knobs>> knobs;
    for (const auto& list : plan.instructions) {
      clocks.emplace_back();
      knobs.emplace_back();
      for (const PlannedInstruction& i : list) {
        if (i.kind == InstructionKind::kSwitch) continue;
        clocks.back().push_back(i.clock);
        knobs.back().push_back(i.knobs);
      }
    }
    EXPECT_EQ(plan_json(must(frontier.plan_of_clocks(clocks, Seconds{0}, options, knobs))),
              plan_json(plan));
    knobs[1][0].label = *Label::of("unknown");
    EXPECT_THAT(diagnostics_of(frontier.plan_of_clocks(clocks, Seconds{0}, options, knobs)),
                HasSubstr("unknown"));
    knobs[1].pop_back();
    EXPECT_THAT(diagnostics_of(frontier.plan_of_clocks(clocks, Seconds{0}, options, knobs)),
                HasSubstr("knobs for each clock"));
    if (options.switching()) continue;
    knobs.clear();
    EXPECT_THAT(diagnostics_of(frontier.plan_of_clocks(clocks, Seconds{0}, options, knobs)), "");
  }
}

/// Returns a profile of one stage: the forward was measured only without knobs, the backward also
/// with `backward`.
Profile two_kinds(const Knobs& backward) {
  const OperatingPoint plain{{1200}, {0.1}, {30}};
  return Profile({{0, 0, InstructionKind::kForward, {plain}},
                  {0, 0, InstructionKind::kBackward, {plain, {{1200}, {0.06}, {20}, backward}}}});
}

/// Returns a plan of one forward without knobs and one backward with them.
Plan two_instructions(const Knobs& backward, Seconds latency) {
  const Frontier frontier =
      must(characterize(one_f_one_b({.stages = 1, .micro_batches = 1}), two_kinds(backward), {}));
  return must(frontier.plan_of_clocks({{{1200}, {1200}}}, Seconds{0}, {.switch_latency = latency},
                                      {{{}, backward}}));
}

TEST(KnobPlans, ALateKnobCostsWhatTheOldOneTakesLonger) {
  for (const Knobs& knobs : {kOverlap, Knobs{.memory_clock = {810}}, Knobs{.power_limit = {250}}}) {
    const Plan late = two_instructions(knobs, 0.02_s);
    EXPECT_EQ(late.clock_changes(), 2);
    // A share of 0.02 / 0.1 of the backward runs without the knobs, at 0.1 s instead of 0.06 s. The
    // forward costs no more, as it was measured only without knobs.
    EXPECT_NEAR(late.iteration_time.value, 0.1 + 0.06 + 0.2 * 0.04, 1e-9);
    EXPECT_NEAR(late.iteration_energy.value, 30 + 20 + 0.2 * 10, 1e-6);
    EXPECT_NEAR(two_instructions(knobs, 0_s).iteration_time.value, 0.16, 1e-9);
  }
}

TEST(PredictKnobs, ReplaysLateKnobs) {
  const Plan plan = two_instructions(kOverlap, 0_s);
  const Prediction found = must(predict(plan, two_kinds(kOverlap), {.switch_latency = 0.02_s}));
  EXPECT_EQ(found.clock_changes, 2u);
  EXPECT_NEAR(found.iteration_time.value, 0.1 + 0.06 + 0.2 * 0.04, 1e-9);
  EXPECT_NEAR(found.iteration_energy.value, 30 + 20 + 0.2 * 10, 1e-9);
}

TEST(AtSetting, InterpolatesBetweenPointsWithTheSameKnobs) {
  const std::vector<OperatingPoint> points = {{{1000}, {0.3}, {30}},
                                              {{1000}, {0.2}, {40}, kOverlap},
                                              {{1500}, {0.9}, {90}},
                                              {{2000}, {0.1}, {50}, kOverlap}};
  // 1333 MHz is half way in 1 / clock.
  const OperatingPoint between = at_setting(points, {{1333}, kOverlap}).value();
  EXPECT_NEAR(between.time.value, 0.15, 1e-4);
  EXPECT_EQ(between.knobs, kOverlap);
  EXPECT_EQ(at_setting(points, {{900}, kOverlap})->time, 0.2_s);
  EXPECT_EQ(at_setting(points, {{2000}, {}})->time, 0.9_s);
  // The all-max point of these has the overlap.
  EXPECT_EQ(at_setting(points, {{2500}, kSlowMemory})->time, 0.1_s);
}

TEST(PlanFromClocksAndKnobs, TakesKnobsBesideThem) {
  const Pipeline pipeline =
      must(Pipeline::build(must(one_f_one_b({.stages = 1, .micro_batches = 1}))));
  const std::vector<std::vector<Megahertz>> clocks = {{{1200}, {1200}}};
  const auto plan = [&](std::vector<std::vector<Knobs>> knobs) {
    return plan_from_clocks(pipeline, two_kinds(kOverlap), clocks, {.knobs = std::move(knobs)});
  };
  EXPECT_NEAR(must(plan({{{}, kOverlap}})).iteration_time.value, 0.16, 1e-9);
  EXPECT_NEAR(must(plan({})).iteration_time.value, 0.2, 1e-9);
  EXPECT_THAT(diagnostics_of(plan({{kOverlap, kOverlap}})),
              HasSubstr("stage 0 forward at 1200 MHz, sm12_overlap"));
  EXPECT_THAT(diagnostics_of(plan({{kOverlap}})), HasSubstr("expected knobs for each clock"));
}

TEST(VerifyPlan, TellsSettingsApart) {
  const Frontier frontier = frontier_of(knob_profile(5, 2, {{}, kOverlap, kSlowMemory}));
  const Plan plan = must(frontier.plan(frontier.min_time() * 1.15));
  EXPECT_THAT(diagnostics(plan, frontier), testing::IsEmpty());
  const auto with = [&](const Knobs& knobs) {
    Plan changed = plan;
    changed.instructions[1][0].knobs = knobs;
    const auto found = diagnostics(changed, frontier);
    return found.empty() ? std::string() : found.front();
  };
  const Knobs was = plan.instructions[1][0].knobs;
  EXPECT_THAT(with(was == kOverlap ? kSlowMemory : kOverlap), HasSubstr("in the profile, not"));
  EXPECT_THAT(with({.label = *Label::of("other")}), HasSubstr(", other: no such row"));
}

TEST(KnobPlanJson, HasTheKnobsThatAreGiven) {
  Plan plan = test_plan();
  const std::string plain = plan_json(plan);
  for (const char* const key : {"memory_frequency_mhz", "power_limit_w", "label"}) {
    EXPECT_THAT(plain, Not(HasSubstr(key)));
  }
  plan.instructions[1][0].knobs = kSlowMemory;
  plan.instructions[1][1].knobs = kOverlap;
  const std::string text = plan_json(plan);
  EXPECT_THAT(text, HasSubstr(R"(, "memory_frequency_mhz": 810, "power_limit_w": 250, "start_s")"));
  EXPECT_THAT(text, HasSubstr(R"(, "label": "sm12_overlap", "start_s")"));
  EXPECT_EQ(must(parse_plan_json(text, "p")).instructions, plan.instructions);
  const auto refused = [&](const std::string& old, const std::string& now) {
    std::string changed = text;
    changed.replace(changed.find(old), old.size(), now);
    return diagnostics_of(parse_plan_json(changed, "p"));
  };
  EXPECT_THAT(refused("sm12_overlap", "sm12 overlap"), HasSubstr("a label has 1 to 31 letters"));
  EXPECT_THAT(refused("_w\": 250", "_w\": 0"), HasSubstr("power_limit_w"));
  EXPECT_THAT(refused("_mhz\": 810", "_mhz\": 0"), HasSubstr("memory_frequency_mhz"));
  plan.instructions[1][1].clock = {};
  EXPECT_THAT(diagnostics_of(parse_plan_json(plan_json(plan), "p")),
              HasSubstr("an instruction without a clock"));
}

TEST(FrontierJson, NumbersTheKnobsOfItsPlans) {
  const Frontier frontier = frontier_of(knob_profile(5, 2, {{}, kOverlap}));
  const std::vector<Plan> plans = {must(frontier.plan(frontier.min_time() * 1.15)),
                                   frontier.all_max()};
  const std::string text = frontier_json(frontier, plans);
  EXPECT_THAT(text, HasSubstr(R"("knobs": [{}, {"label": "sm12_overlap"}])"));
  EXPECT_THAT(text, HasSubstr("\"knob_runs\": [["));
  const std::vector<Plan> plain = {frontier.all_max()};
  EXPECT_THAT(frontier_json(frontier, plain), Not(HasSubstr("knob")));
  EXPECT_THAT(text, HasSubstr(R"(, "label": "sm12_overlap", "iteration_time_s": )"))
      << "one setting for all computations";
}

}  // namespace
}  // namespace harpe::plan
