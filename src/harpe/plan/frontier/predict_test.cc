#include "harpe/plan/frontier/predict.h"

#include <gmock/gmock.h>

#include <numeric>

#include "harpe/plan/frontier/plan_testing.h"

namespace harpe::plan {
namespace {

using testing::HasSubstr;

constexpr InstructionKind kForward = InstructionKind::kForward;
constexpr InstructionKind kBackward = InstructionKind::kBackward;

Prediction predicted(const Plan& plan, const Profile& profile, const PredictOptions& options = {}) {
  return must(predict(plan, profile, options));
}

/// One stage, one micro-batch: forward and backward with two clocks of round numbers.
struct OneStage {
  Profile profile = Profile({{0, 0, kForward, {{{1000}, {0.4}, {80}}, {{2000}, {0.2}, {100}}}},
                             {0, 0, kBackward, {{{1000}, {0.8}, {160}}, {{2000}, {0.4}, {200}}}}});
  Pipeline pipeline = must(Pipeline::build(must(gpipe({.stages = 1, .micro_batches = 1}))));
  Plan plan(int forward, int backward) const {
    return must(plan_from_clocks(pipeline, profile, {{{forward}, {backward}}},
                                 {.blocking_power = Watts{50}, .gpus_per_stage = 2}));
  }
};

TEST(Predict, WithoutOptionsTakesWhatThePlanSays) {
  for (const auto& [schedule, transfers] : test_pipelines()) {
    const Plan plan = test_plan(schedule, transfers, 11);
    const Prediction found = predicted(plan, test_profile(schedule));
    EXPECT_NEAR(found.iteration_time / plan.iteration_time, 1, 1e-12) << schedule.name;
    EXPECT_NEAR(found.iteration_energy / plan.iteration_energy, 1, 1e-12) << schedule.name;
  }
}

TEST(Predict, TheFirstSecondsAfterAChangeRunAtTheClockBefore) {
  const OneStage one;
  const Plan plan = one.plan(2000, 1000);
  const Prediction found = predicted(plan, one.profile, {.switch_latency = Seconds{0.1}});
  // The forward starts at the 1000 MHz of the backward before it, for 0.1 s of 0.4 s. The backward
  // starts at 2000 MHz, for 0.1 s of 0.4 s.
  const double forward = 0.25 * 0.4 + 0.75 * 0.2;
  const double backward = 0.25 * 0.4 + 0.75 * 0.8;
  EXPECT_NEAR(found.iteration_time.value, forward + backward, 1e-12);
  EXPECT_NEAR(found.iteration_energy.value, 2 * (0.25 * 80 + 0.75 * 100 + 0.25 * 200 + 0.75 * 160),
              1e-12);
  EXPECT_EQ(found.clock_changes, 2U);
}

TEST(Predict, AClockThatOutlastsItsInstructionIsLateInTheNextOne) {
  const OneStage one;
  const Pipeline pipeline = must(Pipeline::build(must(gpipe({.stages = 1, .micro_batches = 2}))));
  const Plan plan = must(plan_from_clocks(pipeline, one.profile, {{{2000}, {2000}, {1000}, {1000}}},
                                          {.blocking_power = Watts{50}, .gpus_per_stage = 2}));
  const Prediction found = predicted(plan, one.profile, {.switch_latency = Seconds{0.5}});
  // The first forward runs at 1000 MHz for 0.4 s, the second one for 0.1 s of 0.4 s. The first
  // backward runs at 2000 MHz for 0.4 s, the second one for 0.1 s of 0.4 s.
  const double forwards = 0.4 + 0.25 * 0.4 + 0.75 * 0.2;
  const double backwards = 0.4 + 0.25 * 0.4 + 0.75 * 0.8;
  EXPECT_NEAR(found.iteration_time.value, forwards + backwards, 1e-12);
  const double energy = 80 + 0.25 * 80 + 0.75 * 100 + 200 + 0.25 * 200 + 0.75 * 160;
  EXPECT_NEAR(found.iteration_energy.value, 2 * energy, 1e-9);
  EXPECT_EQ(found.clock_changes, 2U);
}

TEST(Predict, WithoutAChangeNothingIsLate) {
  const OneStage one;
  const Plan plan = one.plan(1000, 1000);
  const Prediction found = predicted(plan, one.profile, {.switch_latency = Seconds{0.1}});
  EXPECT_EQ(found.iteration_time, plan.iteration_time);
  EXPECT_EQ(found.clock_changes, 0U);
}

TEST(Predict, InstructionsWithoutAClockKeepTheOneBefore) {
  const OneStage one;
  Plan plan = one.plan(2000, 2000);
  plan.instructions[0].insert(plan.instructions[0].begin() + 1,
                              {.kind = InstructionKind::kReduce, .time = {0.3}, .energy = {9}});
  const Prediction found = predicted(plan, one.profile, {.switch_latency = Seconds{0.1}});
  EXPECT_EQ(found.clock_changes, 0U);
  EXPECT_NEAR(found.iteration_time.value, 0.2 + 0.3 + 0.4, 1e-12);
  EXPECT_NEAR(found.iteration_energy.value, 2 * (100 + 9 + 200), 1e-12);
}

TEST(Predict, ReplaysSwitchesInsteadOfThePlansAllowanceForThem) {
  const OneStage one;
  const Plan plan = one.plan(2000, 1000);
  Plan careful = plan;
  careful.instructions[0].insert(
      careful.instructions[0].begin(),
      {.kind = InstructionKind::kSwitch, .time = {0.05}, .energy = {2.5}});
  const PredictOptions options{.switch_latency = Seconds{0.1}};
  EXPECT_EQ(predicted(careful, one.profile, options).iteration_time,
            predicted(plan, one.profile, options).iteration_time);
  EXPECT_EQ(predicted(careful, one.profile, options).iteration_energy,
            predicted(plan, one.profile, options).iteration_energy);
}

TEST(Predict, TakesTimesFromTheProfileRatherThanThePlan) {
  const OneStage one;
  Plan plan = one.plan(2000, 1000);
  for (auto& i : plan.instructions[0]) i.time = i.time * 3;
  EXPECT_NEAR(predicted(plan, one.profile).iteration_time.value, 0.2 + 0.8, 1e-12);
  // Instructions that the profile lacks keep their planned time.
  const Profile forward_only({{0, 0, kForward, {{{2000}, {0.2}, {100}}}}});
  EXPECT_NEAR(predicted(plan, forward_only).iteration_time.value, 0.2 + 3 * 0.8, 1e-12);
}

TEST(Predict, TheFixedExtraDrawsBlockingPower) {
  const Plan plan = test_plan();
  const Prediction found = predicted(plan, test_profile(3), {.fixed_extra = {0.5}});
  EXPECT_NEAR((found.iteration_time - plan.iteration_time).value, 0.5, 1e-12);
  EXPECT_NEAR((found.iteration_energy - plan.iteration_energy).value, 2 * 3 * 70 * 0.5, 1e-9);
}

/// Two stages with rendezvous transfers that take no time; the second stage loads.
TEST(Predict, LoadingStartsWhenTheInputHasArrived) {
  const Profile profile({{0, 0, kForward, {{{1000}, {0.4}, {80}}}},
                         {0, 0, kBackward, {{{1000}, {0.8}, {160}}}},
                         {1, 0, kForward, {{{1000}, {0.4}, {80}}}},
                         {1, 0, kBackward, {{{1000}, {0.8}, {160}}}}});
  const Transfers rendezvous{Transfers::Mode::kRendezvous, {{0}}, {{0}}};
  const Pipeline pipeline =
      must(Pipeline::build(must(gpipe({.stages = 2, .micro_batches = 1})), rendezvous));
  const Plan plan = must(plan_from_clocks(pipeline, profile, {{{1000}, {1000}}, {{1000}, {1000}}},
                                          {.blocking_power = Watts{50}}));
  const Prediction found = predicted(plan, profile, {.load = {{0}, {0.25}}});
  EXPECT_NEAR(found.iteration_time.value, 0.4 + 0.25 + 0.4 + 0.8 + 0.8, 1e-12);
  const double waiting = 2 * found.iteration_time.value - 2 * 0.4 - 2 * 0.8;
  EXPECT_NEAR(found.iteration_energy.value, 2 * 80 + 2 * 160 + 50 * waiting, 1e-9);
}

TEST(Predict, LoadingIsTheSameAsLongerForwards) {
  const Schedule schedule = must(one_f_one_b({.stages = 4, .micro_batches = 9}));
  for (const auto mode : {Transfers::Mode::kOverlapped, Transfers::Mode::kRendezvous}) {
    const Plan plan = test_plan(schedule, test_transfers(mode, 4), 5);
    const std::vector<Seconds> load = {{0.01}, {0}, {0.002}, {0.015}};
    const Prediction found = predicted(plan, test_profile(4), {.load = load});
    const Prediction longer =
        predicted(plan, with_loading(test_profile(4), load, plan.blocking_power));
    EXPECT_NEAR(found.iteration_time / longer.iteration_time, 1, 1e-12);
    EXPECT_NEAR(found.iteration_energy / longer.iteration_energy, 1, 1e-12);
    EXPECT_GT(found.iteration_time, plan.iteration_time);
  }
}

TEST(Predict, OtherTransfersReplaceThePlans) {
  const Schedule schedule = must(one_f_one_b({.stages = 3, .micro_batches = 6}));
  const Transfers transfers = test_transfers(Transfers::Mode::kRendezvous, 3);
  const Plan without = test_plan(schedule, {}, 3);
  const Plan with = test_plan(schedule, transfers, 3);
  EXPECT_NEAR(predicted(without, test_profile(3), {.transfers = transfers}).iteration_time.value,
              with.iteration_time.value, 1e-12);
  EXPECT_NEAR(predicted(with, test_profile(3), {.transfers = Transfers{}}).iteration_time.value,
              without.iteration_time.value, 1e-12);
}

TEST(Predict, ErrorsNameWhatIsWrong) {
  const Profile profile = test_profile(3);
  const auto error = [&](const Plan& plan, const PredictOptions& options) {
    return diagnostics_of(predict(plan, profile, options));
  };
  EXPECT_THAT(error(test_plan(), {.load = {{1}}}), HasSubstr("load: expected one time for each"));
  EXPECT_THAT(error(test_plan(), {.switch_latency = Seconds{-1}}), HasSubstr("switch latency"));
  EXPECT_THAT(error(test_plan(), {.fixed_extra = {std::nan("")}}), HasSubstr("fixed extra"));
  Plan plan = test_plan();
  plan.instructions[1][0].chunk = 3;
  EXPECT_THAT(error(plan, {}), HasSubstr("stage 1 forward: chunk 3"));
  plan = test_plan();
  std::swap(plan.instructions[1].front(), plan.instructions[1].back());
  EXPECT_THAT(error(plan, {}), HasSubstr("cycle"));
}

}  // namespace
}  // namespace harpe::plan
