#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "harpe/report/report.h"
#include "harpe/report/test_markup.h"
#include "harpe/report/test_plans.h"

namespace harpe::report {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(FrontierSvg, IsWellFormedAndStandsAlone) {
  ReportInput input = make_report({}, 30);
  input.title = "<script>&\"'";
  input.comparisons = {{"<b>", input.points[5].time, 1.1 * input.points[5].energy}};
  const std::string svg = frontier_svg(input);
  EXPECT_EQ(xml_error(svg), "");
  EXPECT_THAT(outside_references(svg), IsEmpty());
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_EQ(svg, frontier_svg(input));
}

TEST(FrontierSvg, MarksWhatMatters) {
  ReportInput input = make_report({}, 30);
  input.chosen = 4;
  const std::string svg = frontier_svg(input);
  for (const char* mark : {"all-max: ", "chosen: ", "T min ", "T* ", "class=\"bound\""}) {
    EXPECT_THAT(svg, HasSubstr(mark));
  }
  EXPECT_EQ(occurrences(svg, ", gap 0.100 %</title>"), 30);
}

TEST(FrontierSvg, SaysAtTheTopThatAProfileIsSynthetic) {
  ReportInput input = make_report({}, 3);
  EXPECT_THAT(frontier_svg(input), Not(HasSubstr("Synthetic profile")));
  for (ReportPoint& point : input.points) point.plan.synthetic = true;
  const std::string svg = frontier_svg(input);
  EXPECT_EQ(xml_error(svg), "");
  EXPECT_LT(svg.find("Synthetic profile"), svg.find("iteration energy"));
}

TEST(FrontierSvg, KeepsTheChosenLabelOffAComparison) {
  ReportInput input = make_report({}, 30);
  input.chosen = 4;
  const auto label_y = [&] {
    const std::string svg = frontier_svg(input);
    const std::string before = svg.substr(0, svg.find("\" class=\"a h"));
    return std::stod(before.substr(before.rfind("y=\"") + 3));
  };
  const double above = label_y();
  const ReportPoint& chosen = input.points[input.chosen];
  input.comparisons = {{"other", 1.01 * chosen.time, 1.01 * chosen.energy}};
  EXPECT_GT(label_y(), above + 20);
}

TEST(FrontierSvg, DrawsASinglePlanAndOneWithoutBounds) {
  ReportInput input = make_report({.stages = 1, .micro_batches = 1}, 1);
  input.points[0].lower_bound = {0};
  input.bound.clear();
  input.all_max = {};
  const std::string svg = frontier_svg(input);
  EXPECT_EQ(xml_error(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr("n/a")));
  EXPECT_EQ(xml_error(frontier_svg({})), "");
}

}  // namespace
}  // namespace harpe::report
