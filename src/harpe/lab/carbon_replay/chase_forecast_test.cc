#include "harpe/lab/carbon_replay/chase_forecast.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harpe/base/file.h"
#include "harpe/base/source_tree_testing.h"
#include "harpe/carbon/carbon/intensity_csv.h"

namespace harpe::lab {
namespace {

TEST(ChaseForecast, ErrsAsMuchAsPublishedAndAsPersistence) {
  const auto file = measured_data() / "carbon" / "miso_2022-10_half-hourly.csv";
  if (!exists(file)) GTEST_SKIP() << "Chase's trace is not there (HARPE_SHARED)";
  const auto series = carbon::parse_intensity_csv(read_file(file).value(), "miso.csv");
  ASSERT_TRUE(series.ok()) << series.error().text();
  // Mean absolute percentage errors, computed with scikit-learn's SVR from the published data.
  const auto from_48 = chase_forecast(*series, 48);
  ASSERT_TRUE(from_48.ok()) << from_48.error().text();
  EXPECT_EQ(from_48->expected.size(), 119U);
  EXPECT_NEAR(from_48->percentage_error, 0.0141, 5e-5);
  EXPECT_NEAR(from_48->persistence_error, 0.0136, 5e-5);
  const auto from_60 = chase_forecast(*series, 60);
  ASSERT_TRUE(from_60.ok()) << from_60.error().text();
  EXPECT_NEAR(from_60->percentage_error, 0.0145, 5e-5);
  EXPECT_NEAR(from_60->persistence_error, 0.0148, 5e-5);
}

TEST(ChaseForecast, RefusesSeriesThatItCannotBeTrainedOn) {
  carbon::IntensitySeries series{.start = {}, .values = std::vector<double>(60, 100.0)};
  series.estimated.assign(60, 0);
  EXPECT_TRUE(chase_forecast(series, 24).ok());
  EXPECT_FALSE(chase_forecast(series, 23).ok());
  EXPECT_FALSE(chase_forecast(series, 60).ok());
  series.values[30] = carbon::kNoValue;
  EXPECT_FALSE(chase_forecast(series, 24).ok());
}

}  // namespace
}  // namespace harpe::lab
