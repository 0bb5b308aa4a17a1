// Training in simulated time takes and reports the time and energy of its machines.

#include "harpe/training/emulated_training/emulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/frontier/predict.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::training {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Field;

constexpr int kPipelines = 2, kStages = 3;
constexpr Watts kBlocking{70};
constexpr Seconds kOverhead{0.2};
constexpr EmulatedMachines::Options kExact{
    .blocking_power = kBlocking, .overhead = kOverhead, .noise = 0};

JobSpec spec(int tensor = 1) {
  JobSpec spec;
  spec.shape = {.data = kPipelines, .stages = kStages, .tensor = tensor};
  spec.schedule = *one_f_one_b({.stages = kStages, .micro_batches = 5});
  return spec;
}

Profile truth() {
  return *synthesize({.stages = kStages, .imbalance = 1.3});
}

Plan plan_of(const Profile& costs, double slowdown) {
  const Frontier frontier = *characterize(spec().schedule, costs, {.blocking_power = kBlocking});
  return *frontier.plan(frontier.min_time() * (1 + slowdown));
}

StageAssignment assignment_of(const Plan& plan, int stage, std::int64_t from_iteration = 0) {
  StageAssignment assignment{.version = 1,
                             .from_iteration = from_iteration,
                             .purpose = StageAssignment::Purpose::kPlan,
                             .clocks = {}};
  for (const PlannedInstruction& one : plan.instructions[static_cast<std::size_t>(stage)])
    assignment.clocks.push_back(one.clock);
  return assignment;
}

void give(EmulatedTraining& training, const Plan& plan) {
  for (const RankCoordinates rank : training.places())
    training.take(rank, {assignment_of(plan, rank.stage)});
}

TEST(Emulation, AnIterationOfAPlanTakesTheTimeAndEnergyThatThePlanSays) {
  for (const double slowdown : {0.0, 0.05, 0.2}) {
    const Plan plan = plan_of(truth(), slowdown);
    EmulatedTraining training(spec(), truth(), kExact);
    give(training, plan);
    (void)training.iterate();
    EXPECT_NEAR(training.last().time.value, (plan.iteration_time + kOverhead).value, 1e-9);
    const Joules waiting = kBlocking * (kOverhead * kStages);
    EXPECT_THAT(training.last().of_pipeline,
                Each(Field(&Joules::value,
                           testing::DoubleNear((plan.iteration_energy + waiting).value, 1e-6))));
    EXPECT_THAT(training.last().versions, Each(1U));
  }
}

TEST(Emulation, WithoutAssignmentsEverythingRunsAtItsHighestClock) {
  EmulatedTraining training(spec(), truth(), kExact);
  (void)training.iterate();
  EXPECT_EQ(training.last().time, training.last().all_max_time);
  EXPECT_NEAR(training.last().energy.value, training.last().all_max_energy.value, 1e-6);
  EXPECT_THAT(training.last().versions, Each(0U));
}

TEST(Emulation, LateClocksCostWhatTheSwitchLatencySays) {
  const Plan plan = plan_of(truth(), 0.2);
  EmulatedMachines::Options options = kExact;
  for (const double latency : {0.0, 0.004, 0.06}) {
    options.switch_latency = Seconds{latency};
    EmulatedTraining training(spec(), truth(), options);
    give(training, plan);
    // In later iterations the last instruction of the plan precedes the first.
    for (int i = 0; i < 4; ++i) (void)training.iterate();
    const Prediction late = *predict(plan, truth(), {.switch_latency = options.switch_latency});
    EXPECT_GT(late.clock_changes, 0U);
    EXPECT_NEAR(training.last().time.value, (late.iteration_time + kOverhead).value, 1e-9);
    EXPECT_NEAR(training.last().of_pipeline[0].value,
                (late.iteration_energy + kBlocking * (kOverhead * kStages)).value, 1e-6);
  }
}

TEST(Emulation, EndsWhereACostHasAKnobThatIsNotEmulated) {
  const Profile profile = truth();
  std::vector<InstructionProfile> entries(profile.entries().begin(), profile.entries().end());
  entries.back().points.back().knobs.power_limit = Watts{250};
  EXPECT_DEATH(EmulatedMachines(spec(), Profile(entries), kExact), "no knob but their clock");
}

TEST(Emulation, AStragglerSlowsItsPipelineByItsFactorAndAllWaitForIt) {
  EmulatedTraining training(spec(), truth(), kExact);
  (void)training.iterate();
  for (int stage = 0; stage < kStages; ++stage) training.slow[{1, stage}] = 1.3;
  (void)training.iterate();
  const auto& [before, after] = std::pair(training.iterations()[0], training.iterations()[1]);
  EXPECT_NEAR((after.time - kOverhead) / (before.time - kOverhead), 1.3, 1e-9);
  // The healthy pipeline draws blocking power for the rest.
  const Joules waiting = kBlocking * ((after.time - before.time) * kStages);
  EXPECT_NEAR((after.of_pipeline[0] - before.of_pipeline[0]).value, waiting.value, 1e-6);
  training.heal();
  (void)training.iterate();
  EXPECT_EQ(training.last().time, before.time);
}

TEST(Emulation, DelaysAndStallsAreOutsideOfComputations) {
  EmulatedTraining training(spec(), truth(), kExact);
  std::vector<IterationReport> reports = training.iterate();
  const Seconds usual = training.last().time;
  const auto forward = [](const IterationReport& report) { return report.instructions[0].time; };
  const auto of_first_rank = [](const std::vector<IterationReport>& all) {
    return *std::ranges::find(all, RankCoordinates{}, &IterationReport::coordinates);
  };
  const Seconds computed = forward(of_first_rank(reports));
  training.delay = [](int pipeline) { return Seconds{pipeline == 1 ? 0.5 : 0}; };
  training.stall = [](std::int64_t iteration) { return Seconds{iteration == 1 ? 2.0 : 0}; };
  reports = training.iterate();
  EXPECT_NEAR((training.last().time - usual).value, 2.5, 1e-9);
  EXPECT_EQ(forward(of_first_rank(reports)), computed);
}

TEST(Emulation, AGpuThatIsHeldToAClockSaysSo) {
  EmulatedTraining training(spec(), truth(), kExact);
  training.held[{0, 1}] = Megahertz{1200};
  for (const IterationReport& report : training.iterate()) {
    const bool held = report.coordinates == RankCoordinates{.data = 0, .stage = 1};
    EXPECT_EQ(report.throttled, held);
  }
}

std::vector<double> energies(double noise, std::uint64_t seed) {
  EmulatedMachines::Options options = kExact;
  options.noise = noise;
  options.seed = seed;
  EmulatedTraining training(spec(), truth(), options);
  std::vector<double> energies;
  for (int i = 0; i < 20; ++i)
    for (const IterationReport& report : training.iterate())
      energies.push_back(report.energy.value);
  return energies;
}

TEST(Emulation, NoiseAndTheOrderOfReportsAreThoseOfTheSeed) {
  EXPECT_EQ(energies(0.01, 7), energies(0.01, 7));
  EXPECT_NE(energies(0.01, 7), energies(0.01, 8));
  EXPECT_NE(energies(0, 7), energies(0, 8)) << "the order";
}

TEST(Emulation, NoiseIsInWhatIsReportedNotInWhatHappens) {
  EmulatedMachines::Options options = kExact;
  options.noise = 0.01;
  EmulatedTraining noisy(spec(), truth(), options), exact(spec(), truth(), kExact);
  double most = 0;
  for (int i = 0; i < 20; ++i) {
    const std::vector<IterationReport> reports = noisy.iterate();
    const std::vector<IterationReport> without = exact.iterate();
    EXPECT_EQ(noisy.last().time, exact.last().time);
    for (const IterationReport& report : reports) {
      const auto& true_report =
          *std::ranges::find(without, report.coordinates, &IterationReport::coordinates);
      const double off = report.instructions[0].time / true_report.instructions[0].time - 1;
      EXPECT_LT(std::abs(off), 0.06);
      most = std::max(most, std::abs(off));
    }
  }
  EXPECT_GT(most, 0.01);
}

TEST(Emulation, ARankRunsByTheNewestAssignmentThatHasBegun) {
  EmulatedTraining training(spec(), truth(), kExact);
  const RankCoordinates rank{.data = 1, .stage = 2};
  const auto version = [&] {
    const std::vector<IterationReport> reports = training.iterate();
    return std::ranges::find(reports, rank, &IterationReport::coordinates)->version;
  };
  const Megahertz clock = training.clocks(2).front();
  training.take(rank, {{.version = 4, .from_iteration = 3, .clocks = {clock}},
                       {.version = 3, .from_iteration = 1, .clocks = {clock}}});
  std::vector<std::uint64_t> ran_by;
  for (int i = 0; i < 5; ++i) ran_by.push_back(version());
  EXPECT_THAT(ran_by, ElementsAre(0, 3, 3, 4, 4));
  training.start_again("second", 2);
  EXPECT_EQ(version(), 0U) << "another process, which has none";
  EXPECT_EQ(training.next_iteration(), 3);
}

TEST(Emulation, ReportsAreOfTheRanksThatRegistered) {
  EmulatedTraining training(spec(2), truth(), kExact);
  training.lacking[1] = {Megahertz{1410}};
  std::vector<std::string> registered, reported;
  for (const RankCoordinates rank : training.places()) {
    const RankRegistration registration = training.registration(rank);
    registered.push_back(registration.session);
    EXPECT_EQ(std::ranges::count(registration.clocks, Megahertz{1410}), rank.stage == 1 ? 0 : 1);
  }
  for (const IterationReport& report : training.iterate()) {
    reported.push_back(report.session);
    EXPECT_EQ(report.session, training.session(report.coordinates));
    EXPECT_EQ(report.time, training.last().time);
  }
  EXPECT_EQ(registered.size(), 12U);
  EXPECT_THAT(reported, testing::UnorderedElementsAreArray(registered));
}

}  // namespace
}  // namespace harpe::training
