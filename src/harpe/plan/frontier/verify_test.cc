#include "harpe/plan/frontier/verify.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>

#include "harpe/plan/frontier/plan_testing.h"

namespace harpe::plan {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

struct Case {
  Plan plan;
  Profile profile;
  Certificate certificate;
};

/// Returns a certificate whose flow runs along one critical path of the fastest plan: the path
/// cannot save energy, and all other instructions run at their cheapest points.
Certificate path_certificate(const Pipeline& pipeline, const Plan& plan) {
  constexpr std::int64_t kFlow = 1'000'000;  // units of 1/16 W: more than any slope
  const auto nodes = pipeline.nodes();
  const auto dependencies = pipeline.dependencies();
  Certificate c{.deadline = plan.iteration_time,
                .flow_unit = {0.0625},
                .time_unit = {1e-9},
                .node_flow = std::vector<std::int64_t>(nodes.size()),
                .dependency_flow = std::vector<std::int64_t>(dependencies.size()),
                .source_flow = std::vector<std::int64_t>(nodes.size()),
                .sink_flow = std::vector<std::int64_t>(nodes.size()),
                .start = {},
                .end = {}};
  std::vector<Seconds> time;
  for (const auto& list : plan.instructions) {
    for (const auto& i : list) time.push_back(i.time);
  }
  for (const auto& node : nodes.subspan(time.size())) time.push_back(node.transfer_time);
  const Timeline timeline = pipeline.earliest(time);
  int node = 0;
  while (timeline.start[node] + time[node] < timeline.makespan) ++node;
  c.sink_flow[node] = kFlow;
  for (bool moved = true; moved;) {
    c.node_flow[node] = kFlow;
    moved = false;
    for (std::size_t d = 0; d < dependencies.size() && !moved; ++d) {
      const auto& [from, to, lag] = dependencies[d];
      if (to != node || timeline.start[from] + time[from] + lag < timeline.start[to]) continue;
      c.dependency_flow[d] = kFlow;
      node = from;
      moved = true;
    }
  }
  c.source_flow[node] = kFlow;
  return c;
}

Case fastest_case(const Schedule& schedule, Transfers transfers) {
  Profile profile = test_profile(schedule);
  const Pipeline pipeline = must(Pipeline::build(schedule, std::move(transfers)));
  std::vector<std::vector<Megahertz>> clocks;
  for (const auto& list : schedule.lists) {
    clocks.emplace_back(list.size(), Megahertz{kTestClocks[3]});
  }
  Plan plan = must(plan_from_clocks(pipeline, profile, clocks,
                                    {.blocking_power = Watts{70}, .gpus_per_stage = 2}));
  Certificate certificate = path_certificate(pipeline, plan);
  plan.lower_bound = verify_plan(plan, profile, &certificate).proven_bound.value();
  return {std::move(plan), std::move(profile), std::move(certificate)};
}

Case fastest_case() {
  return fastest_case(must(one_f_one_b({.stages = 3, .micro_batches = 4})),
                      test_transfers(Transfers::Mode::kOverlapped, 3));
}

/// One stage: every instruction is on the critical path, so the fastest plan is the optimum.
Case chain_case() {
  Case chain = fastest_case(must(one_f_one_b({.stages = 1, .micro_batches = 4})), {});
  for (const auto& i : chain.plan.instructions[0]) {
    const auto units = [](Seconds time) { return static_cast<std::int64_t>(time.value * 1e9); };
    chain.certificate.start.push_back(units(i.start));
    chain.certificate.end.push_back(units(i.start + i.time));
  }
  return chain;
}

std::vector<std::string> diagnostics(const Case& c) {
  return verify_plan(c.plan, c.profile, &c.certificate).diagnostics;
}

TEST(Verify, AcceptsPlansOfEverySchedule) {
  for (const auto& [schedule, transfers] : test_pipelines()) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      SCOPED_TRACE(schedule.name + " " + std::to_string(seed));
      const Plan plan = test_plan(schedule, transfers, seed);
      const Verification found = verify_plan(plan, test_profile(schedule), nullptr);
      EXPECT_THAT(found.diagnostics, IsEmpty());
      EXPECT_NEAR(found.makespan / plan.iteration_time, 1, 1e-12);
      EXPECT_NEAR(found.energy / plan.iteration_energy, 1, 1e-12);
      EXPECT_FALSE(found.proven_bound);
    }
  }
}

/// Returns the bound that `path_certificate` proves: no saving on the path, and the greatest saving
/// elsewhere.
Joules path_bound(const Case& c) {
  Joules sum{0};
  std::size_t node = 0;
  for (int stage = 0; stage < c.plan.stages; ++stage) {
    for (const auto& i : c.plan.instructions[stage]) {
      Joules least = i.energy - Watts{70} * i.time;
      if (c.certificate.node_flow[node++] == 0) {
        for (const auto& point : c.profile.points(stage, i.chunk, i.kind)) {
          least = std::min(least, effective_energy(point, Watts{70}));
        }
      }
      sum += least;
    }
  }
  return 2 * (sum + c.plan.stages * (Watts{70} * c.plan.iteration_time));
}

TEST(Verify, AcceptsACertificateAndComputesItsBound) {
  for (const auto& [schedule, transfers] : test_pipelines()) {
    SCOPED_TRACE(schedule.name);
    const Case c = fastest_case(schedule, transfers);
    const Verification found = verify_plan(c.plan, c.profile, &c.certificate);
    EXPECT_THAT(found.diagnostics, IsEmpty());
    ASSERT_TRUE(found.proven_bound);
    EXPECT_NEAR(*found.proven_bound / path_bound(c), 1, 1e-9);
    EXPECT_LT(*found.proven_bound, c.plan.iteration_energy);
  }
}

TEST(Verify, ABoundHoldsForEveryPlan) {
  // Weak duality, for all assignments of a small pipeline.
  const Schedule schedule = must(one_f_one_b({.stages = 3, .micro_batches = 1}));
  const Case c = fastest_case(schedule, test_transfers(Transfers::Mode::kRendezvous, 3));
  const Pipeline pipeline = must(Pipeline::build(schedule, c.plan.transfers));
  double tightest = 1e300;
  for (int code = 0; code < 1 << 12; ++code) {
    std::vector<std::vector<Megahertz>> clocks(3);
    for (int i = 0; i < 6; ++i) clocks[i / 2].push_back({kTestClocks[code >> 2 * i & 3]});
    const Plan plan = must(plan_from_clocks(pipeline, c.profile, clocks,
                                            {.blocking_power = Watts{70}, .gpus_per_stage = 2}));
    const Verification found = verify_plan(plan, c.profile, &c.certificate);
    ASSERT_THAT(found.diagnostics, IsEmpty());
    ASSERT_LE(*found.proven_bound, plan.iteration_energy * (1 + 1e-12)) << code;
    tightest = std::min(tightest, (plan.iteration_energy - *found.proven_bound).value);
  }
  EXPECT_NEAR(tightest, 0, 1e-9);  // the best plan of the shortest time reaches the bound
}

TEST(Verify, ShowsThatStartsAndEndsAreOptimal) {
  const Case chain = chain_case();
  const Verification found = verify_plan(chain.plan, chain.profile, &chain.certificate);
  EXPECT_THAT(found.diagnostics, IsEmpty());
  ASSERT_TRUE(found.relaxed_optimum);
  EXPECT_NEAR(*found.relaxed_optimum / *found.proven_bound, 1, 1e-7);
  EXPECT_NEAR(*found.relaxed_optimum / chain.plan.iteration_energy, 1, 1e-7);
}

TEST(Verify, RefusesAnyChangeOfAnInstruction) {
  const Case good = fastest_case();
  ASSERT_THAT(diagnostics(good), IsEmpty());
  int mutations = 0;
  const std::vector<std::pair<std::string, std::function<void(PlannedInstruction&)>>> changes = {
      {"MHz", [](auto& i) { i.clock.value = 1200; }},
      {"no such row", [](auto& i) { i.clock.value = 1201; }},
      {"no such row", [](auto& i) { i.clock.value = 0; }},
      {"s in the profile", [](auto& i) { i.time = i.time * (1 + 1e-6); }},
      {"s in the profile", [](auto& i) { i.time = i.time * (1 - 1e-6); }},
      {"J in the profile", [](auto& i) { i.energy = i.energy * (1 + 1e-6); }},
      {"must not be negative", [](auto& i) { i.energy = {-1}; }},
      {"must not be negative", [](auto& i) { i.start = {std::nan("")}; }},
      {"the iteration takes", [](auto& i) { i.start += {10}; }},
  };
  for (std::size_t stage = 0; stage < 3; ++stage) {
    for (std::size_t k = 0; k < good.plan.instructions[stage].size(); ++k) {
      for (const auto& [message, change] : changes) {
        Case bad = good;
        change(bad.plan.instructions[stage][k]);
        EXPECT_THAT(diagnostics(bad), Contains(HasSubstr(message)));
        ++mutations;
      }
      Case early = good;
      auto& start = early.plan.instructions[stage][k].start;
      if (start == Seconds{0}) continue;
      start -= Seconds{1e-6};
      EXPECT_THAT(diagnostics(early), Contains(AllOf(HasSubstr("stage " + std::to_string(stage)),
                                                     HasSubstr("starts at"))));
    }
  }
  EXPECT_EQ(mutations, 9 * 24);
}

TEST(Verify, RefusesWrongSums) {
  const Case good = fastest_case();
  const auto expect = [&](const char* message, const std::function<void(Plan&)>& change) {
    Case bad = good;
    change(bad.plan);
    EXPECT_THAT(diagnostics(bad), Contains(HasSubstr(message)));
  };
  expect("the iteration takes", [](Plan& p) { p.iteration_time = p.iteration_time * 0.99; });
  expect("J, not", [](Plan& p) { p.iteration_time = p.iteration_time * 1.01; });
  expect("J, not", [](Plan& p) { p.iteration_energy = p.iteration_energy * 1.000001; });
  expect("J, not", [](Plan& p) { p.gpus_per_stage = 3; });
  expect("at least one GPU", [](Plan& p) { p.gpus_per_stage = 0; });
  expect("J, not", [](Plan& p) { p.blocking_power[1] = {71}; });
  expect("one blocking power a stage", [](Plan& p) { p.blocking_power.pop_back(); });
  expect("one list of instructions a stage", [](Plan& p) { p.stages = 4; });
  expect("starts at", [](Plan& p) { p.transfers.forward[0] = {0.5}; });
  expect("the certificate proves only", [](Plan& p) { p.lower_bound = p.lower_bound * 1.01; });
  expect("above the energy of the plan", [](Plan& p) { p.lower_bound = p.iteration_energy * 2; });
}

TEST(Verify, RefusesListsThatAreNotThoseOfTheSchedule) {
  const Case good = fastest_case();
  const auto expect = [&](const std::string& message, const std::function<void(Plan&)>& change) {
    Case bad = good;
    change(bad.plan);
    EXPECT_THAT(diagnostics(bad), Contains(HasSubstr(message)));
  };
  expect("stage 0, instruction 7: the plan ends, where the schedule has backward of micro-batch 3",
         [](Plan& p) { p.instructions[0].pop_back(); });
  expect(
      "stage 0, instruction 8: the plan runs backward of micro-batch 3, which the schedule does "
      "not have",
      [](Plan& p) { p.instructions[0].push_back(p.instructions[0].back()); });
  expect(
      "runs forward of micro-batch 0 on chunk 1, where the schedule has forward of micro-batch 0",
      [](Plan& p) { p.instructions[0][0].chunk = 1; });
  expect(
      "stage 2, instruction 0: the plan runs backward of micro-batch 3, where the schedule has "
      "forward of micro-batch 0",
      [](Plan& p) { std::swap(p.instructions[2].front(), p.instructions[2].back()); });
  expect("the plan's schedule 'early' is not known by name", [](Plan& p) { p.schedule = "early"; });
}

TEST(Verify, RefusesEveryFlowThatIsOffByOneUnit) {
  const Case good = fastest_case();
  using Flow = std::vector<std::int64_t> Certificate::*;
  for (const Flow flow : {&Certificate::node_flow, &Certificate::source_flow,
                          &Certificate::sink_flow, &Certificate::dependency_flow}) {
    for (std::size_t i = 0; i < (good.certificate.*flow).size(); ++i) {
      Case bad = good;
      ++(bad.certificate.*flow)[i];
      EXPECT_THAT(diagnostics(bad), Contains(HasSubstr("the flow is not conserved")));
      (bad.certificate.*flow)[i] = -1;
      EXPECT_THAT(diagnostics(bad), Contains(HasSubstr("negative")));
    }
    Case bad = good;
    (bad.certificate.*flow)[0] = std::numeric_limits<std::int64_t>::max();
    EXPECT_THAT(diagnostics(bad), Contains(HasSubstr("out of range")));
    (bad.certificate.*flow).pop_back();
    EXPECT_THAT(diagnostics(bad),
                Contains(HasSubstr("entries, but the graph of the schedule needs")));
  }
}

TEST(Verify, RefusesACertificateOfAnotherScale) {
  const Case good = fastest_case();
  Case bad = good;
  // With less flow the path may slow down at no price, and the bound falls.
  bad.certificate.flow_unit = {1e-6};
  EXPECT_THAT(diagnostics(bad), Contains(HasSubstr("proves only")));
  bad.certificate.flow_unit = {0};
  EXPECT_THAT(diagnostics(bad), Contains(HasSubstr("units and deadline must be positive")));
}

TEST(Verify, RefusesStartsAndEndsThatProveNothing) {
  const Case good = chain_case();
  ASSERT_THAT(diagnostics(good), IsEmpty());
  Case bad = good;
  bad.certificate.end[3] -= 1000;
  EXPECT_THAT(diagnostics(bad), Contains(HasSubstr("too little time")));
  bad = good;
  bad.certificate.start[3] -= 1000;
  EXPECT_THAT(diagnostics(bad), Contains(HasSubstr("starts before")));
  bad = good;
  bad.certificate.start[0] = -1;
  EXPECT_THAT(diagnostics(bad), Contains(HasSubstr("outside the iteration")));
  bad = good;  // feasible, but with time to spare
  bad.certificate.deadline = bad.certificate.deadline + Seconds{0.05};
  EXPECT_THAT(diagnostics(bad), Contains(HasSubstr("not optimal")));
}

TEST(Verify, TheBoundIsThatWithoutSwitches) {
  const Seconds extra{0.004};
  Case good = fastest_case();
  good.plan.iteration_time += extra;
  good.plan.iteration_energy += 2 * 3 * (Watts{70} * extra);
  good.plan.lower_bound = {0};
  EXPECT_THAT(diagnostics(good), IsEmpty());
  Case with_switch = good;
  auto& list = with_switch.plan.instructions[0];
  list.insert(list.end() - 1, {.kind = InstructionKind::kSwitch,
                               .start = list.back().start,
                               .time = extra,
                               .energy = Watts{70} * extra});
  list.back().start += extra;
  PlannedInstruction& late = list[list.size() - 2];
  EXPECT_THAT(diagnostics(with_switch), IsEmpty());
  // Equal up to rounding: one makespan includes the switch, the other is the plan's iteration time.
  EXPECT_NEAR(verify_plan(with_switch.plan, with_switch.profile, &with_switch.certificate)
                  .proven_bound->value,
              verify_plan(good.plan, good.profile, &good.certificate).proven_bound->value, 1e-9);
  late.energy = Watts{60} * extra;
  EXPECT_THAT(diagnostics(with_switch), Contains(HasSubstr("less energy than blocking")));
  late.clock = {1200};
  EXPECT_THAT(diagnostics(with_switch), Contains(HasSubstr("no clock to choose")));
  // A switch must wait for the dependencies of its instruction, too.
  late = {.kind = InstructionKind::kSwitch,
          .start = good.plan.instructions[0].back().start,
          .time = extra,
          .energy = Watts{70} * extra};
  late.start -= Seconds{0.001};
  EXPECT_THAT(diagnostics(with_switch), Contains(HasSubstr("waits for the gradient")));
}

TEST(Verify, CountsFixedTimesOfThePlan) {
  Case c = fastest_case();
  const Seconds time{0.02};
  auto& list = c.plan.instructions[0];
  list.push_back({.kind = InstructionKind::kOptimizer,
                  .start = c.plan.iteration_time,
                  .time = time,
                  .energy = {3}});
  c.plan.iteration_time += time;
  c.plan.iteration_energy += 2 * (Joules{3} + 2 * (Watts{70} * time));
  EXPECT_THAT(verify_plan(c.plan, c.profile, nullptr).diagnostics, IsEmpty());
  list.back().time = time * 0.5;
  EXPECT_THAT(verify_plan(c.plan, c.profile, nullptr).diagnostics, Not(IsEmpty()));
}

TEST(Verify, SaysThatTheProfileIsAnother) {
  Case c = fastest_case();
  for (auto& list : c.plan.instructions) {
    for (auto& i : list) i.energy = i.energy * 1.01;
  }
  EXPECT_THAT(diagnostics(c),
              Contains(AllOf(StartsWith("the plan is not one of this profile: 24 of 24"),
                             HasSubstr("stage 0 forward"), HasSubstr("J in the profile"))));
  EXPECT_THAT(diagnostics(c), SizeIs(Le(3U)));
}

TEST(Verify, CountsTheErrorsItDoesNotTell) {
  Case c = fastest_case();
  for (auto& list : c.plan.instructions) {
    for (auto& i : list) i.energy = {-1};
  }
  EXPECT_THAT(diagnostics(c), AllOf(SizeIs(21), Contains("and 4 more errors")));
}

// Forgeries by which a plan or a certificate once looked better than it was.

TEST(VerifyForged, UnitsThatNoSumHolds) {
  for (const double unit : {1e300, 1e13, 1e-30, 0.0, -1.0, std::nan(""), HUGE_VAL}) {
    Case forged = fastest_case();
    forged.certificate.flow_unit = {unit};
    EXPECT_THAT(diagnostics(forged), Contains(HasSubstr("units and deadline"))) << unit;
    forged = fastest_case();
    forged.certificate.time_unit = {unit};
    EXPECT_THAT(diagnostics(forged), Contains(HasSubstr("units and deadline"))) << unit;
    forged = fastest_case();
    forged.certificate.deadline = {unit};
    EXPECT_THAT(diagnostics(forged), Contains(HasSubstr("units and deadline"))) << unit;
  }
}

TEST(VerifyForged, APlanThatSaysItEndsSooner) {
  // A flow along the critical path proves its value x each second below the makespan.
  const Case good = fastest_case();
  const Verification honest = verify_plan(good.plan, good.profile, &good.certificate);
  for (const double less : {1e-9, 1e-10, 1e-15}) {
    for (const double unit : {1.0, 1e6, 1e12}) {
      Case forged = good;
      forged.plan.iteration_time = {good.plan.iteration_time.value * (1 - less)};
      forged.plan.lower_bound = {0};
      forged.certificate.flow_unit = {unit};
      const Verification found = verify_plan(forged.plan, forged.profile, &forged.certificate);
      if (!found.proven_bound) continue;
      EXPECT_LE(*found.proven_bound, found.energy) << less << " " << unit;
      EXPECT_LE(found.proven_bound->value, honest.energy.value * (1 + 1e-12));
    }
  }
  Case forged = good;
  forged.plan.iteration_time = forged.plan.iteration_time * 0.99;
  EXPECT_THAT(diagnostics(forged), Contains(HasSubstr("the iteration takes")));
}

TEST(VerifyForged, ALowerBoundBelowNothing) {
  for (const double bound : {-1.0, -1e9, std::nan(""), 1e13, HUGE_VAL}) {
    Case forged = fastest_case();
    forged.plan.lower_bound = {bound};
    EXPECT_THAT(diagnostics(forged), Not(IsEmpty())) << bound;
  }
}

TEST(VerifyForged, AComputationThatTheProfileLacks) {
  Case forged = fastest_case();
  std::vector<InstructionProfile> entries;
  for (const InstructionProfile& entry : forged.profile.entries()) {
    if (entry.stage != 1) entries.push_back(entry);
  }
  forged.profile = forged.profile.with_entries(std::move(entries));
  for (PlannedInstruction& i : forged.plan.instructions[1]) i.clock = {};
  EXPECT_THAT(diagnostics(forged), Contains(HasSubstr("has no rows in the profile")));
}

TEST(VerifyForged, NumbersThatAreOffTheScale) {
  Case forged = fastest_case();
  forged.plan.blocking_power[0] = {1e13};
  EXPECT_THAT(diagnostics(forged), Contains(HasSubstr("blocking power must not be negative")));
  forged = fastest_case();
  forged.plan.transfers.forward[0] = {std::nan("")};
  EXPECT_THAT(diagnostics(forged), Not(IsEmpty()));
  forged = fastest_case();
  std::vector<InstructionProfile> entries(forged.profile.entries().begin(),
                                          forged.profile.entries().end());
  entries[0].points[0].energy = {1e300};
  forged.profile = forged.profile.with_entries(std::move(entries));
  EXPECT_THAT(diagnostics(forged), Contains(HasSubstr("in the profile must be 0 or from")));
}

TEST(Verify, SaysHowMuchIsThePlansWord) {
  Case c = fastest_case();
  EXPECT_EQ(verify_plan(c.plan, c.profile, nullptr).taken_from_plan, 0);
  c.plan.instructions[0].push_back({.kind = InstructionKind::kOptimizer,
                                    .start = c.plan.iteration_time,
                                    .time = {0},
                                    .energy = {0}});
  EXPECT_EQ(verify_plan(c.plan, c.profile, nullptr).taken_from_plan, 1);
}

TEST(Verify, TheGapIsThatToWhatIsProven) {
  Case c = fastest_case();
  c.plan.lower_bound = {0};
  const Verification found = verify_plan(c.plan, c.profile, &c.certificate);
  ASSERT_TRUE(found.proven_gap());
  EXPECT_NEAR(*found.proven_gap(), found.energy / *found.proven_bound - 1, 1e-12);
  EXPECT_GE(*found.proven_gap(), found.energy / *found.proven_bound - 1);
  EXPECT_FALSE(verify_plan(c.plan, c.profile, nullptr).proven_gap());
}

TEST(CertificateJson, ReadsBackTheSame) {
  Case c = chain_case();
  c.certificate.flow_unit = {std::ldexp(1.0, -31)};
  c.certificate.node_flow[0] = std::numeric_limits<std::int64_t>::max();
  const std::string text = certificate_json(c.certificate);
  const Certificate again = must(parse_certificate_json(text, "c"));
  EXPECT_EQ(again.deadline, c.certificate.deadline);
  EXPECT_EQ(again.flow_unit, c.certificate.flow_unit);
  EXPECT_EQ(again.time_unit, c.certificate.time_unit);
  EXPECT_EQ(again.node_flow, c.certificate.node_flow);
  EXPECT_EQ(again.dependency_flow, c.certificate.dependency_flow);
  EXPECT_EQ(again.source_flow, c.certificate.source_flow);
  EXPECT_EQ(again.sink_flow, c.certificate.sink_flow);
  EXPECT_EQ(again.start, c.certificate.start);
  EXPECT_EQ(again.end, c.certificate.end);
  EXPECT_EQ(certificate_json(again), text);
}

TEST(CertificateJson, PointsAtFaults) {
  const std::string faults_found = diagnostics_of(parse_certificate_json(
      "{\"format\": \"harpe.certificate/1\", \"deadline_s\": 0,\n \"flow_unit_w\": \"x\",\n"
      " \"node_flow\": [1, 2.5, -1], \"start\": 3, \"more\": 1}",
      "c"));
  EXPECT_THAT(
      faults_found,
      AllOf(HasSubstr("c:1:49: expected a number above 0"),
            HasSubstr("c:2:17: expected a number above 0"),
            HasSubstr("c:3:19: expected an integer from 0"),
            HasSubstr("c:3:24: expected an integer from 0"), HasSubstr("c:3:38: expected a list"),
            HasSubstr("c:3:49: unknown key 'more'"), HasSubstr("\"sink_flow\" is missing")));
  EXPECT_THAT(diagnostics_of(parse_certificate_json("{}", "c")), HasSubstr("harpe.certificate/1"));
  EXPECT_THAT(diagnostics_of(parse_certificate_json("[]", "c")),
              HasSubstr("c:1:1: expected a cert"));
}

}  // namespace
}  // namespace harpe::plan
