#include "harpe/command/lab_cli/regret_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harpe::command {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RegretPage, HasALineForEachWayAndNeedsNoOtherFile) {
  const std::string page = regret_page({.title = "Jobs",
                                        .subtitle = "two seeds",
                                        .headline = "Harpe pays 2 % more",
                                        .explanation = "Each job is <trained> again",
                                        .charts = {{.name = "a<b>",
                                                    .caption = "Harpe 1.02",
                                                    .by_default = {10, 20, 30},
                                                    .by_zeus = {0.5, 1, 1},
                                                    .by_harpe = {0.5, 0.6, 0.6}}}});
  EXPECT_THAT(page, AllOf(HasSubstr("<p class=\"headline long\">Harpe pays 2 % more</p>"),
                          HasSubstr("Each job is &lt;trained&gt; again"),
                          HasSubstr(">trainings of this job so far</text>"),
                          HasSubstr(">cost above the oracle, in trainings</text>")));
  EXPECT_THAT(page, AllOf(HasSubstr("Harpe 1.02"), HasSubstr("two seeds"),
                          HasSubstr("class=\"l0\""), HasSubstr("a&lt;b&gt;")));
  EXPECT_THAT(page,
              AllOf(Not(HasSubstr("http:")), Not(HasSubstr("src=\"")), Not(HasSubstr("banner\""))));
}

TEST(RegretPage, TheDefaultMayLeaveThePicture) {
  // The scale ignores the default: its top is 1.1 times the highest value of Zeus and Harpe.
  const std::string page = regret_page(
      {.charts = {
           {.name = "", .caption = "", .by_default = {100}, .by_zeus = {1}, .by_harpe = {0}}}});
  EXPECT_THAT(page, HasSubstr(">1.0</text>"));
  EXPECT_THAT(page, Not(HasSubstr(">100</text>")));
}

TEST(RegretPage, WithoutRecurrencesIsAPage) {
  EXPECT_THAT(
      regret_page(
          {.charts =
               {{.name = "n", .caption = "c", .by_default = {}, .by_zeus = {}, .by_harpe = {}}}}),
      HasSubstr("</html>"));
  EXPECT_THAT(regret_page({}), HasSubstr("</html>"));
}

}  // namespace
}  // namespace harpe::command
