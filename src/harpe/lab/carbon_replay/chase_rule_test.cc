#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "harpe/lab/carbon_replay/carbon_simulation.h"

namespace harpe::lab {
namespace {

// One epoch of ResNet-50 on ImageNet, batch size 256, under the power limits of a V100 from 250 W
// down in steps of 25 W: seconds and average watts from the traces of Zeus (NSDI'23).
std::vector<carbon::PieceCost> resnet_on_v100() {
  std::vector<carbon::PieceCost> choices;
  for (const auto& [seconds, watts] :
       {std::pair(3514.99, 220.25), std::pair(3584.30, 205.44), std::pair(3700.97, 184.94),
        std::pair(3852.18, 166.37), std::pair(4148.66, 144.59), std::pair(5064.97, 121.97),
        std::pair(6781.17, 98.38)}) {
    choices.push_back({.time = Seconds{seconds}, .energy = Watts{watts} * Seconds{seconds}});
  }
  return choices;
}

TEST(ChaseRule, WithThePublishedWeightAV100StaysAtItsHighestLimit) {
  for (const double intensity : {0.0, 100.0, 300.0, 450.0, 680.0}) {
    EXPECT_EQ(chase_choice(resnet_on_v100(), intensity, {}), 0U) << intensity;
  }
  // With all weight on carbon, the limit of least energy is chosen at every intensity.
  for (const double intensity : {100.0, 680.0}) {
    EXPECT_EQ(chase_choice(resnet_on_v100(), intensity, {.eta = 1}), 4U) << intensity;
  }
}

TEST(ChaseRule, AFlatSignalGivesOneLimitAndADirtierOneALower) {
  // Seconds and joules of an epoch of ResNet-50 on a V100 at 250 W, 200 W and 150 W (made up).
  const std::vector<carbon::PieceCost> limits = {
      {{100}, {24000}}, {{103}, {20000}}, {{120}, {17500}}};
  const ChaseTerms terms{.eta = 0.5, .highest_power = {250}};
  const std::size_t clean = chase_choice(limits, 50, terms);
  const std::size_t dirty = chase_choice(limits, 700, terms);
  EXPECT_EQ(clean, 0U);
  EXPECT_GT(dirty, clean);
  EXPECT_EQ(chase_choice(limits, 700, {.eta = 0, .highest_power = {250}}), 0U);
  EXPECT_EQ(chase_choice(limits, 700, {.eta = 1, .highest_power = {250}}), 2U);
}

}  // namespace
}  // namespace harpe::lab
