#include "harpe/report/comparison_svg.h"

#include <gmock/gmock.h>

#include "harpe/report/test_markup.h"

namespace harpe::report {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

ComparisonPicture picture() {
  const auto at = [](double seconds, double joules) {
    return std::pair(Seconds{seconds}, Joules{joules});
  };
  return {.title = "<b>&\"'",
          .subtitle = "8 stages",
          .schedule = "1f1b",
          .is_synthetic = true,
          .policies = {{.name = "all-max", .at_objective = at(1, 100), .points = {at(1, 100)}},
                       {.name = "one power limit",
                        .remark = "model of <gpu>",
                        .at_objective = at(1.1, 90),
                        .points = {at(1, 100), at(1.1, 90)}},
                       {.name = "Harpe",
                        .is_ours = true,
                        .at_objective = at(1, 80),
                        .points = {at(1, 80), at(1.2, 60)}}},
          .schedules = {{"1f1b", Seconds{1}, Joules{100}, Joules{80}},
                        {"<zb>", Seconds{0.9}, Joules{95}, Joules{95}}}};
}

TEST(ComparisonSvg, IsWellFormedAndStandsAlone) {
  const std::string svg = comparison_svg(picture());
  EXPECT_EQ(xml_error(svg), "");
  EXPECT_THAT(outside_references(svg), IsEmpty());
  EXPECT_THAT(svg, AllOf(HasSubstr("Synthetic profile"), HasSubstr("model of &lt;gpu&gt;"),
                         HasSubstr("\u221220.0\u00A0%"), Not(HasSubstr("<zb>"))));
}

TEST(ComparisonSvg, LeavesOutWhatWasNotCompared) {
  ComparisonPicture schedules_alone = picture();
  schedules_alone.policies.clear();
  EXPECT_EQ(xml_error(comparison_svg(schedules_alone)), "");
  EXPECT_THAT(comparison_svg(schedules_alone), Not(HasSubstr("at the objective")));
  ComparisonPicture policies_alone = picture();
  policies_alone.schedules.clear();
  EXPECT_EQ(xml_error(comparison_svg(policies_alone)), "");
  EXPECT_THAT(comparison_svg(policies_alone), Not(HasSubstr("1.0000 s")));
  EXPECT_THAT(comparison_svg(policies_alone), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace harpe::report
