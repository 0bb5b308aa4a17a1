#include "harpe/report/usage_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harpe/report/test_markup.h"

namespace harpe::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

UsagePageInput small_input() {
  return {.title = "Jobs <of> March",
          .subtitle = "two",
          .headline = "2 runs",
          .explanation = "SCI",
          .warnings = {"simulated"},
          .intervals = {"2026-11-25 03:00", "2026-11-25 04:00"},
          .interval_length = "1 h",
          .series = {{.name = "a&b", .energy = {1, 2}, .mass = {100, -50}},
                     {.name = "c", .energy = {0, 1}, .mass = {0, 30}}},
          .gaps = {false, true},
          .table = {{"job", "energy"}, {"a&b", "3"}, {"total", "4"}},
          .has_total = true,
          .method = {"Energy: <measured>"}};
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(UsagePage, ShowsBarsTableAndMethod) {
  const std::string page = usage_page(small_input());
  EXPECT_THAT(page, AllOf(HasSubstr("Jobs &lt;of&gt; March"), HasSubstr("a&amp;b"),
                          HasSubstr("Energy: &lt;measured&gt;"), HasSubstr("class=\"total\"")));
  EXPECT_EQ(count_of(page, "<svg"), 2U);
  EXPECT_EQ(count_of(page, "<rect class=\"c0\""), 4U);
  EXPECT_EQ(count_of(page, "<rect class=\"c1\""), 2U) << "what is 0 has no bar";
  EXPECT_EQ(count_of(page, "<rect class=\"gap\""), 1U);
  EXPECT_EQ(page, usage_page(small_input()));
}

TEST(UsagePage, IsWellFormedAndSaysUnderEachChartWhatItIsNot) {
  UsagePageInput input = small_input();
  const std::string real = usage_page(input);
  EXPECT_EQ(report::html_error(real), "");
  EXPECT_THAT(real, Not(HasSubstr("class=\"doubt\"")));
  input.doubt = "Simulated GPUs, not real ones.";
  const std::string page = usage_page(input);
  EXPECT_EQ(count_of(page, "<strong class=\"doubt\">Simulated GPUs, not real ones.</strong>"), 2U);
  EXPECT_EQ(count_of(page, "<figcaption>"), 2U);
}

TEST(UsagePage, ShadesPausesBehindTheBars) {
  UsagePageInput input = small_input();
  EXPECT_THAT(usage_page(input), Not(HasSubstr(">paused<")));
  input.series[0].paused = {0, 0.5};
  input.series[1].paused = {0, 1.2};
  const std::string page = usage_page(input);
  EXPECT_EQ(count_of(page, "<rect class=\"pause\""), 2U) << "one in each chart";
  EXPECT_THAT(page, AllOf(HasSubstr("2026-11-25 04:00: paused: a&amp;b 50 %, c 100 % of it"),
                          HasSubstr("fill-opacity=\"0.220\""), HasSubstr("</i>paused</li>")));
  EXPECT_LT(page.find("class=\"pause\" x"), page.find("2026-11-25 04:00: 2.0000 kWh"));
}

TEST(UsagePage, FewBarsAreNoWiderThanALabelAndSayTheirSums) {
  UsagePageInput input = small_input();
  input.energy_unit = "Wh";
  input.intervals = {"2026-11-25 03:00"};
  input.interval_length = "5 min";
  input.series = {{.name = "a", .energy = {0.4582}, .mass = {0.1386}},
                  {.name = "b", .energy = {0.1}, .mass = {1256}}};
  const std::string page = usage_page(input);
  EXPECT_THAT(page, AllOf(HasSubstr("<h2>Energy, Wh in one interval (5 min), UTC</h2>"),
                          HasSubstr(">0.558 Wh</span>"), HasSubstr(">1256 g</span>")));
  EXPECT_EQ(count_of(page, "width=\"90\""), 4U);
  EXPECT_EQ(count_of(page, "class=\"sum\""), 2U);
  input.intervals.resize(20, "later");
  EXPECT_EQ(count_of(usage_page(input), "class=\"sum\""), 0U);
}

// The size of labels must not shrink with the drawing.
TEST(UsagePage, LabelsAreNoPartOfTheDrawing) {
  const std::string page = usage_page(small_input());
  EXPECT_EQ(count_of(page, "<text"), 0U);
  EXPECT_THAT(page, AllOf(HasSubstr("<span class=\"x\" style=\"left:0%\">2026-11-25 03:00</span>"),
                          HasSubstr("<span class=\"y\" style=\"top:")));
}

TEST(UsagePage, NamesNoOtherResource) {
  const std::string page = usage_page(small_input());
  for (const char* part : {"http:", "https:", "src=\"", "url(", "<script", "@import"}) {
    EXPECT_THAT(page, Not(HasSubstr(part))) << part;
  }
}

TEST(UsagePage, ShowsManySeriesAndNone) {
  UsagePageInput input = small_input();
  for (int i = 0; i < 20; ++i) {
    input.series.push_back({.name = "s" + std::to_string(i), .energy = {1, 1}, .mass = {1, 1}});
  }
  EXPECT_THAT(usage_page(input), HasSubstr("15 others"));
  EXPECT_THAT(usage_page({}), Not(HasSubstr("<svg")));
}

}  // namespace
}  // namespace harpe::report
