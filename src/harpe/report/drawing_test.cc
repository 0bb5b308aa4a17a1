#include "harpe/report/drawing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "harpe/report/curve.h"
#include "harpe/report/test_plans.h"

namespace harpe::report {
namespace {

Plan random_plan(std::mt19937& random) {
  TestPipeline pipeline{.stages = 1 + static_cast<int>(random() % 6),
                        .micro_batches = 1 + static_cast<int>(random() % 9),
                        .gpus_per_stage = 1 + static_cast<int>(random() % 4)};
  return make_plan(pipeline, [&](int, InstructionKind, int) {
    return 700 + 15 * static_cast<int>(random() % 47);
  });
}

TEST(PlanFigures, AddUpToTheEnergyOfTheIteration) {
  constexpr unsigned kSeed = 4711;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 50; ++round) {
    const Plan plan = random_plan(random);
    const PlanFigures figures = plan_figures(plan);
    EXPECT_NEAR((figures.computing + figures.blocking).value, plan.iteration_energy.value,
                1e-9 * plan.iteration_energy.value);
    EXPECT_GE(figures.waiting_share, 0);
    EXPECT_LT(figures.waiting_share, 1);
  }
}

TEST(AveragePower, HoldsTheEnergyOfAStage) {
  constexpr unsigned kSeed = 99;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 30; ++round) {
    const Plan plan = random_plan(random);
    const int columns = 1 + static_cast<int>(random() % 300);
    const PlanFigures figures = plan_figures(plan);
    double joules = 0;
    for (int stage = 0; stage < plan.stages; ++stage) {
      for (const double watts : average_power(plan, stage, plan.iteration_time, columns)) {
        ASSERT_GE(watts, 0);
        joules += watts * plan.iteration_time.value / columns;
      }
    }
    EXPECT_NEAR(joules * plan.gpus_per_stage, (figures.computing + figures.blocking).value,
                1e-9 * joules * plan.gpus_per_stage);
  }
}

TEST(AveragePower, IsMissingAfterTheIteration) {
  const Plan plan = make_plan({}, [](int, InstructionKind, int) { return 1000; });
  const auto watts = average_power(plan, 0, 2 * plan.iteration_time, 10);
  EXPECT_GE(watts[4], 0);
  EXPECT_LT(watts[5], 0);
}

TEST(TransferLinks, ConnectNeighbouringStagesInBothDirections) {
  TestPipeline pipeline{.stages = 3, .micro_batches = 4};
  pipeline.transfers = {.mode = Transfers::Mode::kRendezvous,
                        .forward = {{0.002}, {0.003}},
                        .backward = {{0.004}, {0.005}}};
  const Plan plan = make_plan(pipeline, [](int, InstructionKind, int) { return 1400; });
  const auto links = transfer_links(plan);
  ASSERT_EQ(links.size(), 2U * 2 * 4);
  for (const Link& link : links) {
    EXPECT_EQ(std::abs(link.from_stage - link.to_stage), 1);
    const auto& sender = plan.instructions[link.from_stage][link.from_position];
    const auto& receiver = plan.instructions[link.to_stage][link.to_position];
    EXPECT_EQ(sender.kind, receiver.kind);
    EXPECT_EQ(sender.micro_batch, receiver.micro_batch);
    const auto [start, end] = transfer_interval(plan, link);
    EXPECT_GE(start.value, (sender.start + sender.time).value - 1e-12);
    EXPECT_LE(end.value, receiver.start.value + 1e-12);
    const auto& senders = plan.instructions[link.from_stage];
    if (link.from_position + 1 < static_cast<int>(senders.size())) {
      EXPECT_LE(end.value, senders[link.from_position + 1].start.value + 1e-12);
    }
  }
}

TEST(TransferLinks, AreNoneWithoutTransfers) {
  EXPECT_TRUE(
      transfer_links(make_plan({}, [](int, InstructionKind, int) { return 1000; })).empty());
}

TEST(PowerScale, LeavesTheGroundWithPower) {
  const PowerScale scale(Watts{80}, Watts{400});
  EXPECT_EQ(scale.index(Watts{10}), 0);
  EXPECT_EQ(scale.index(Watts{1000}), PowerScale::kColours - 1);
  const auto brightness = [](const std::string& colour) {
    const auto part = [&](std::size_t at) { return std::stoi(colour.substr(at, 2), nullptr, 16); };
    return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
  };
  for (int i = 1; i < PowerScale::kColours; ++i) {
    EXPECT_LT(brightness(PowerScale::colour(i)), brightness(PowerScale::colour(i - 1))) << i;
    EXPECT_LT(brightness(PowerScale::border(i)), brightness(PowerScale::colour(i))) << i;
    EXPECT_GT(brightness(PowerScale::dark_colour(i)), brightness(PowerScale::dark_colour(i - 1)))
        << i;
  }
}

TEST(ThinCurve, StaysWithinItsTolerance) {
  std::vector<CurvePoint> curve;
  for (int i = 0; i <= 5000; ++i) {
    const double time = 1 + i / 5000.0;
    curve.push_back({{time}, {1000 / time}});
  }
  const auto thin = thin_curve(curve, Joules{0.05});
  EXPECT_LT(thin.size(), 100U);
  EXPECT_EQ(thin.front(), curve.front());
  EXPECT_EQ(thin.back(), curve.back());
  std::size_t segment = 0;
  for (const auto& [time, energy] : curve) {
    while (thin[segment + 1].first < time) ++segment;
    const auto& [t0, e0] = thin[segment];
    const auto& [t1, e1] = thin[segment + 1];
    const double part = (time - t0) / (t1 - t0);
    EXPECT_NEAR((e0 + part * (e1 - e0)).value, energy.value, 0.05 + 1e-9);
  }
}

}  // namespace
}  // namespace harpe::report
