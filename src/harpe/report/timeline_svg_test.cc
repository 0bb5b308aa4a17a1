#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "harpe/report/report.h"
#include "harpe/report/test_markup.h"
#include "harpe/report/test_plans.h"

namespace harpe::report {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

int full_clock(int, InstructionKind, int) {
  return 1400;
}

TEST(TimelineSvg, IsWellFormedAndStandsAlone) {
  TestPipeline pipeline{.stages = 4, .micro_batches = 8, .with_optimizer = true};
  pipeline.transfers = {.mode = Transfers::Mode::kRendezvous,
                        .forward = {{0.004}, {0.004}, {0.004}},
                        .backward = {{0.004}, {0.004}, {0.004}}};
  Plan plan = make_plan(pipeline, full_clock);
  plan.job = "</svg><script>&\"'";
  const std::string svg = timeline_svg(plan);
  EXPECT_EQ(xml_error(svg), "");
  EXPECT_THAT(outside_references(svg), IsEmpty());
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_EQ(svg, timeline_svg(plan));
}

TEST(TimelineSvg, DrawsEveryInstructionWithItsFigures) {
  const Plan plan = make_plan({.stages = 3, .micro_batches = 5}, full_clock);
  const std::string svg = timeline_svg(plan);
  EXPECT_EQ(occurrences(svg, ", forward, micro-batch "), 3 * 5);
  EXPECT_EQ(occurrences(svg, ", backward, micro-batch "), 3 * 5);
  EXPECT_EQ(occurrences(svg, "1400 MHz"), 2 * 3 * 5);
  EXPECT_THAT(svg, HasSubstr(">B4</text>"));
  EXPECT_EQ(occurrences(svg, " waits, 80.0 W"), 3);
}

TEST(TimelineSvg, SaysWhatIsSetBesideAClock) {
  Plan plan = make_plan({.stages = 3, .micro_batches = 5}, full_clock);
  plan.instructions[1][0].knobs = {.memory_clock = {810}, .label = *Label::of("sm12")};
  EXPECT_EQ(occurrences(timeline_svg(plan), "1400 MHz, memory 810 MHz, sm12"), 1);
}

TEST(TimelineSvg, SaysAboveTheRowsThatAProfileIsSynthetic) {
  Plan plan = make_plan({.stages = 3, .micro_batches = 5}, full_clock);
  EXPECT_THAT(timeline_svg(plan), Not(HasSubstr("Synthetic profile")));
  plan.synthetic = true;
  const std::string svg = timeline_svg(plan);
  EXPECT_EQ(xml_error(svg), "");
  EXPECT_LT(svg.find("Synthetic profile"), svg.find("stage 0"));
}

TEST(TimelineSvg, DrawsFixedTimeWorkAndTransfersHatched) {
  TestPipeline pipeline{.stages = 2, .micro_batches = 3, .with_optimizer = true};
  EXPECT_EQ(occurrences(timeline_svg(make_plan(pipeline, full_clock)), "fill=\"url(#hatch)\""), 2);
  pipeline.transfers = {
      .mode = Transfers::Mode::kRendezvous, .forward = {{0.004}}, .backward = {{0.004}}};
  EXPECT_EQ(occurrences(timeline_svg(make_plan(pipeline, full_clock)), "fill=\"url(#hatch)\""),
            2 + 2 * 2 * 3);
}

Plan plan_of_many_instructions() {
  Plan plan;
  plan.iteration_time = {102.4};
  plan.blocking_power.assign(64, Watts{80});
  for (int stage = 0; stage < 64; ++stage) {
    auto& list = plan.instructions.emplace_back();
    for (int i = 0; i < 1024; ++i) {
      PlannedInstruction& instruction = list.emplace_back();
      instruction.start = {i * 0.1};
      instruction.time = {0.08};
      instruction.energy = {10.0 + (i * 7 + stage * 13) % 20};
    }
  }
  return plan;
}

TEST(TimelineSvg, StaysSmallForManyInstructions) {
  const std::string svg = timeline_svg(plan_of_many_instructions());
  EXPECT_EQ(xml_error(svg), "");
  EXPECT_LT(svg.size(), 1'000'000U);
}

// Each line starts at the end of the previous one. Together they cover each place once.
TEST(TimelineSvg, ColumnsCoverEveryPlaceOnce) {
  const std::string svg = timeline_svg(plan_of_many_instructions());
  std::map<std::pair<double, int>, int> covered;  // height and column
  const std::string lines(between(svg, "crispEdges", "</g>"));
  for (std::size_t path = lines.find(" d=\""); path != std::string::npos;
       path = lines.find(" d=\"", path + 1)) {
    std::istringstream text(lines.substr(path + 4, lines.find('"', path + 4) - path - 4));
    double x = 0, y = 0;
    for (char command = 0; text >> command;) {
      double a = 0, b = 0;
      text >> a;
      if (command != 'h') text >> b;
      if (command == 'M') x = y = 0;
      if (command != 'h') {
        x += a;
        y += b;
        continue;
      }
      for (int i = 0; i < static_cast<int>(a); ++i) ++covered[{y, static_cast<int>(x) + i}];
      x += a;
    }
  }
  EXPECT_EQ(covered.size(), 64U * (1200 - 72 - 20));
  for (const auto& [place, times] : covered)
    ASSERT_EQ(times, 1) << place.first << " " << place.second;
}

TEST(TimelineSvg, TakesAnEmptyPlan) {
  EXPECT_EQ(xml_error(timeline_svg({})), "");
}

}  // namespace
}  // namespace harpe::report
