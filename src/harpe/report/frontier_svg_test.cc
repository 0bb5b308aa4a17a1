#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <string>
#include <vector>

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

TEST(FrontierSvg, DrawsTheBoundOfLateClocksAboveThatOfFreeChanges) {
  ReportInput input = make_report({}, 30);
  EXPECT_THAT(frontier_svg(input), Not(HasSubstr("class=\"free\"")));
  const std::string free(between(frontier_svg(input), "class=\"bound\" d=\"", "\""));
  make_late(input);
  const std::string svg = frontier_svg(input);
  EXPECT_EQ(xml_error(svg), "");
  EXPECT_EQ(occurrences(svg, "class=\"bound\""), 1);
  EXPECT_EQ(between(svg, "class=\"free\" d=\"", "\""), free);
  EXPECT_NE(between(svg, "class=\"bound\" d=\"", "\""), free);
  EXPECT_EQ(occurrences(svg, ", gap 0.050 %</title>"), 30) << "to the bound that is drawn";
  EXPECT_THAT(svg, HasSubstr("No plan with clocks as late"));
}

TEST(FrontierSvg, SaysAtTheTopThatAProfileIsSynthetic) {
  ReportInput input = make_report({}, 3);
  EXPECT_THAT(frontier_svg(input), Not(HasSubstr("Synthetic profile")));
  for (ReportPoint& point : input.points) point.plan.synthetic = true;
  const std::string svg = frontier_svg(input);
  EXPECT_EQ(xml_error(svg), "");
  EXPECT_LT(svg.find("Synthetic profile"), svg.find("iteration energy"));
}

struct Text {
  std::string words;
  double left, right, baseline;
};

/// Returns the texts of a picture, with their widths in a wide font.
std::vector<Text> texts_of(const std::string& svg) {
  const std::regex text("<text x=\"([^\"]*)\" y=\"([^\"]*)\"( class=\"([^\"]*)\")?>([^<]*)<");
  std::vector<Text> texts;
  for (auto i = std::sregex_iterator(svg.begin(), svg.end(), text); i != std::sregex_iterator();
       ++i) {
    const std::string words = (*i)[5], classes = " " + (*i)[4].str() + " ";
    const auto is_start = [](char byte) {
      return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
    };
    const double width = 6.9 * static_cast<double>(std::ranges::count_if(words, is_start));
    const double x = std::stod((*i)[1]);
    const double left = classes.find(" e ") != std::string::npos   ? x - width
                        : classes.find(" m ") != std::string::npos ? x - width / 2
                                                                   : x;
    texts.push_back({words, left, left + width, std::stod((*i)[2])});
  }
  return texts;
}

/// Returns the labels in the plot that leave the picture or overlap others.
std::vector<std::string> hidden_labels(const ReportInput& input) {
  constexpr double kTop = 104, kBottom = 400, kWidth = 900, kLine = 12;
  std::vector<std::string> hidden;
  std::vector<Text> texts = texts_of(frontier_svg(input));
  std::erase_if(texts, [&](const Text& t) { return t.baseline < kTop || t.baseline > kBottom; });
  EXPECT_GE(texts.size(), 8U);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Text& one = texts[i];
    if (one.left < 0 || one.right > kWidth) hidden.push_back(one.words + " leaves the picture");
    for (std::size_t k = 0; k < i; ++k) {
      if (std::abs(one.baseline - texts[k].baseline) < kLine && one.left < texts[k].right &&
          texts[k].left < one.right)
        hidden.push_back(one.words + " over " + texts[k].words);
    }
  }
  return hidden;
}

TEST(FrontierSvg, EveryLabelCanBeRead) {
  ReportInput input = make_report({}, 30);
  const ReportPoint last = input.points.back();
  EXPECT_THAT(hidden_labels(input), IsEmpty());
  // As with a straggler: all-max waits for it, and lies beside the plan of least energy.
  input.all_max.iteration_time = last.time;
  for (const std::size_t chosen :
       {std::size_t{0}, std::size_t{4}, std::size_t{15}, std::size_t{27}, std::size_t{29}}) {
    input.chosen = chosen;
    const ReportPoint& at = input.points[chosen];
    for (const double slower : {1.0, 1.02, 1.1}) {
      for (const double dearer : {1.005, 1.02, 1.05}) {
        input.comparisons = {
            {"one clock, 1110 MHz", slower * at.time, dearer * at.energy},
            {"one power limit, 250 W", slower * at.time, 1.01 * dearer * at.energy}};
        EXPECT_THAT(hidden_labels(input), IsEmpty()) << chosen << ' ' << slower << ' ' << dearer;
      }
    }
  }
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
