#include "harpe/report/power_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harpe::report {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

PowerChart chart() {
  return {.title = "a <job>",
          .subtitle = "16 pipelines",
          .step = Seconds{0.01},
          .curves = {{.name = "all-max", .watts = std::vector<double>(20'000, 3000.0)},
                     {.name = "Harpe & co", .is_ours = true, .watts = {2000, 2500}}}};
}

TEST(PowerChart, IsOneDocumentOfFewPointsWithEscapedText) {
  const std::string svg = power_chart_svg(chart());
  EXPECT_THAT(svg, AllOf(HasSubstr("a &lt;job&gt;"), HasSubstr("Harpe &amp; co"), HasSubstr("kW"),
                         HasSubstr("16 pipelines"), Not(HasSubstr("var("))));
  EXPECT_LT(svg.size(), 40'000U) << "20,000 steps are drawn as one point a pixel";
  EXPECT_EQ(svg, power_chart_svg(chart()));
}

TEST(PowerChart, InAPageHasItsColoursAndNoTitleOfItsOwn) {
  const std::string svg = power_chart_figure(chart());
  EXPECT_THAT(svg, AllOf(HasSubstr("var(--ours)"), Not(HasSubstr("16 pipelines"))));
}

TEST(PowerChart, OfNothingIsStillADocument) {
  EXPECT_THAT(power_chart_svg({}), AllOf(HasSubstr("<svg"), HasSubstr("</svg>")));
}

}  // namespace
}  // namespace harpe::report
