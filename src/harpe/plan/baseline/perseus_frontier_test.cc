// Perseus's published algorithm, compared with the frontiers published by its authors.

#include "harpe/plan/baseline/perseus_frontier.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "harpe/base/source_tree_testing.h"
#include "harpe/plan/baseline/exponential_fit.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::plan {
namespace {

/// Reads published times and energies of a tenth of the layers, for one GPU of each stage.
std::vector<PerseusFrontier::Point> published(const std::filesystem::path& file) {
  std::ifstream input(file);
  std::string line;
  std::getline(input, line);
  std::vector<PerseusFrontier::Point> points;
  while (std::getline(input, line)) {
    std::ranges::replace(line, ',', ' ');
    std::istringstream cells(line);
    PerseusFrontier::Point point{};
    cells >> point.planned_time.value >> point.planned_energy.value;
    points.push_back(point);
  }
  return points;
}

/// Compares every point of a published frontier.
void expect_published(const std::filesystem::path& folder, const std::string& profile,
                      const std::string& name, int micro_batches) {
  const std::string file = name + std::to_string(micro_batches) + ".csv";
  SCOPED_TRACE(file);
  const auto frontier =
      characterize(one_f_one_b({.stages = 8, .micro_batches = micro_batches}),
                   read_profile(folder / profile).value(), {.blocking_power = 83.64_W});
  ASSERT_TRUE(frontier.ok());
  const PerseusFrontier found = PerseusFrontier::find(*frontier).value();
  const auto there = published(folder / "published_frontiers/a100_sxm" / file);
  // The published files leave out the plan before the first step.
  ASSERT_EQ(found.points().size(), there.size() + 1);
  double farthest = 0;
  for (std::size_t i = 0; i < there.size(); ++i) {
    const PerseusFrontier::Point& mine = found.points()[i + 1];
    ASSERT_NEAR(mine.planned_time.value, there[i].planned_time.value, 1e-9);
    farthest =
        std::max(farthest, std::abs(mine.planned_energy.value / there[i].planned_energy.value - 1));
  }
  EXPECT_LT(farthest, 1e-6);
}

TEST(PerseusFrontier, IsThePublishedOne) {
  const auto folder = measured_data() / "sosp24/emulation";
  if (!exists(folder)) GTEST_SKIP() << "the measured profiles are not there (HARPE_SHARED)";
  for (const auto& [profile, name] : {std::pair("gpt3-175b_a100-sxm.csv", "gpt3-175b_bf16_mb"),
                                      std::pair("bloom-176b_a100-sxm.csv", "bloom_bf16_mb")}) {
    for (const int micro_batches : {12, 24, 48, 96}) {
      if (HARPE_UNDER_SANITIZERS && micro_batches > 12) continue;  // the larger ones are slow there
      expect_published(folder, profile, name, micro_batches);
    }
  }
}

Frontier frontier_of(int stages, int micro_batches) {
  return characterize(one_f_one_b({.stages = stages, .micro_batches = micro_batches}),
                      synthesize({.stages = stages, .imbalance = 1.3}).value(),
                      {.blocking_power = 83.64_W})
      .value();
}

TEST(PerseusFrontier, PlansTimesThatItsClocksDoNotReach) {
  const Frontier frontier = frontier_of(4, 12);
  const PerseusFrontier published = PerseusFrontier::find(frontier).value();
  const std::size_t last = published.points().size() - 1;
  const Plan fastest = published.plan(last).value();
  EXPECT_LT(published.points()[last].planned_time, fastest.iteration_time);
  EXPECT_NEAR(published.points()[last].planned_time / fastest.iteration_time, 1, 0.02);
  EXPECT_GE(fastest.gap(), 0) << "real clocks are never below the bound";
  EXPECT_LT(fastest.iteration_energy, frontier.all_max().iteration_energy);
}

TEST(PerseusFrontier, FindsTheSlowestPlanInTime) {
  const Frontier frontier = frontier_of(4, 8);
  const PerseusFrontier published = PerseusFrontier::find(frontier).value();
  const Plan slowest = published.plan(0).value();
  const Plan fastest = published.plan(published.points().size() - 1).value();
  EXPECT_EQ(published.plan_by(slowest.iteration_time * 2)->iteration_time, slowest.iteration_time);
  EXPECT_EQ(published.plan_by(fastest.iteration_time * 0.9)->iteration_time,
            fastest.iteration_time);
  const Seconds between = (slowest.iteration_time + fastest.iteration_time) / 2;
  const Plan plan = published.plan_by(between).value();
  EXPECT_LE(plan.iteration_time, between);
  EXPECT_GT(plan.iteration_time, between * 0.98);
}

TEST(PerseusFrontier, NeedsEnoughClocksForACurve) {
  const auto frontier =
      characterize(one_f_one_b({.stages = 1, .micro_batches = 2}),
                   parse_profile("stage,instruction,frequency,time,energy\n"
                                 "0,forward,1410,0.05,20\n0,forward,1200,0.06,18\n"
                                 "0,backward,1410,0.1,40\n0,backward,1200,0.12,36\n",
                                 "two.csv")
                       .value(),
                   {.blocking_power = 83.64_W});
  const auto published = PerseusFrontier::find(frontier.value());
  ASSERT_FALSE(published.ok());
  EXPECT_THAT(published.error().text(), testing::HasSubstr("too few clocks"));
}

TEST(FitExponential, FindsTheCurveThatPointsLieOn) {
  const Exponential truth{.scale = 120, .rate = -0.04, .offset = 15};
  std::vector<double> x, y;
  for (int i = 50; i < 90; i += 3) {
    x.push_back(i);
    y.push_back(truth(i));
  }
  const auto found = fit_exponential(x, y);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->rate, truth.rate, 1e-6);
  for (const double at : x) EXPECT_NEAR((*found)(at), truth(at), 1e-6);
  std::ranges::reverse(y);  // rising
  EXPECT_FALSE(fit_exponential(x, y));
}

}  // namespace
}  // namespace harpe::plan
