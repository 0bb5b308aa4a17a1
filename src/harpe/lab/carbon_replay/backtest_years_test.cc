// Forecasts of recorded years, as documented in docs/carbon.md. The forecaster was designed on the
// second half of 2021 and is judged on 2022.

#include <gtest/gtest.h>

#include "harpe/base/file.h"
#include "harpe/base/source_tree_testing.h"
#include "harpe/carbon/carbon/intensity_csv.h"
#include "harpe/lab/carbon_replay/backtest.h"

namespace harpe::lab {
namespace {

carbon::IntensitySeries year_of(const std::string& zone, int year) {
  const auto file =
      measured_data() / "carbon" / (zone + "_" + std::to_string(year) + "_hourly.csv");
  return carbon::parse_intensity_csv(read_file(file).value(), file.string()).value();
}

class Years : public ::testing::TestWithParam<std::pair<const char*, double>> {};

TEST_P(Years, ErrFarLessThanTheSameHourAndCoverWhatTheyPromise) {
  if (!exists(measured_data() / "carbon")) GTEST_SKIP() << "no intensities (HARPE_SHARED)";
  const auto& [zone, most] = GetParam();
  const carbon::IntensitySeries earlier = year_of(zone, 2021);
  const auto result = backtest(year_of(zone, 2022), &earlier, nullptr, {});
  ASSERT_TRUE(result.ok()) << result.error().text();
  EXPECT_LE(result->mean_over_same_hour, most);
  ASSERT_EQ(result->by_month.size(), 12U);
  for (const auto& [month, figures] : result->by_month) {
    EXPECT_NEAR(figures.coverage, 0.8, 0.03) << month;
  }
  for (const auto& [hours, figures] : result->by_horizon) {
    EXPECT_EQ(figures.forecasts, 8760U);
    EXPECT_NEAR(figures.coverage, 0.8, 0.02) << hours;
    EXPECT_LT(figures.over_same_hour(), 1) << hours;
    EXPECT_LT(figures.percentage_error, figures.persistence_error) << hours;
  }
}

INSTANTIATE_TEST_SUITE_P(Zones, Years,
                         ::testing::Values(std::pair("US-CAL-CISO", 0.68), std::pair("ES", 0.59),
                                           std::pair("NO", 0.69)));

TEST(YearsAlone, StillErrLessThanTheSameHour) {
  if (!exists(measured_data() / "carbon")) GTEST_SKIP() << "no intensities (HARPE_SHARED)";
  for (const auto& [zone, most] : {std::pair("US-CAL-CISO", 0.74), {"ES", 0.62}, {"NO", 0.72}}) {
    const auto result = backtest(year_of(zone, 2022), nullptr, nullptr, {});
    ASSERT_TRUE(result.ok()) << result.error().text();
    EXPECT_LE(result->mean_over_same_hour, most) << zone;
  }
}

}  // namespace
}  // namespace harpe::lab
