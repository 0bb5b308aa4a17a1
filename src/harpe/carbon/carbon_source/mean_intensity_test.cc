// One number from each kind of source. Providers' answers are written from the documentation; none
// was recorded.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "harpe/base/file.h"
#include "harpe/carbon/carbon_source/accounting_intensity.h"
#include "harpe/carbon/carbon_source/source_environment_testing.h"

namespace harpe::carbon {
namespace {

using testing::HasSubstr;

class MeanIntensity : public testing::Test, public EnvironmentOfATest {
 public:
  MeanIntensity() { now = parse_utc("2026-01-15T10:00Z").value(); }

  Result<CarbonIntensity> mean(const std::string& text, WholeSeconds past = whole_hours(720)) {
    return mean_intensity(parse_source(text).value(), environment(), past);
  }
};

TEST_F(MeanIntensity, ANumberAndAYearlyMeanAreTheirOwn) {
  EXPECT_EQ(mean("302.5")->grams_per_kwh, 302.5);
  const auto france = mean("FR");
  EXPECT_EQ(france->grams_per_kwh, 56);
  EXPECT_EQ(france->kind, IntensityKind::kAverageLifecycle);
  EXPECT_THAT(france->source, HasSubstr("Ember"));
}

TEST_F(MeanIntensity, OfAFileItIsThatOfAllThatIsKnown) {
  const std::string path = (directory / "ci.csv").string();
  ASSERT_TRUE(write_file(path,
                         "Time,Carbon Intensity\n2024-01-01T00:00Z,100\n2024-01-01T01:00Z,200\n"
                         "2024-01-01T03:00Z,600\n")
                  .ok());
  const auto found = mean("file:" + path);
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_DOUBLE_EQ(found->grams_per_kwh, 300);
  EXPECT_THAT(found->source, HasSubstr("mean of 3 of 4 values from 2024-01-01T00:00:00Z to "
                                       "2024-01-01T04:00:00Z"));
  const auto none = mean("file:" + (directory / "none.csv").string());
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().text(), HasSubstr("none.csv"));
}

TEST_F(MeanIntensity, OfAProviderItIsThatOfTheTimeUntilNow) {
  variables["HARPE_ELECTRICITY_MAPS_TOKEN"] = "s3cret";
  net::ScriptedHttpServer server([](const std::string&) {
    std::string items;
    for (int hour = 0; hour < 10; ++hour) {
      items += (hour == 0 ? "" : ",") + std::string(R"({"carbonIntensity": )") +
               std::to_string(100 + hour) + R"(, "datetime": "2026-01-15T0)" +
               std::to_string(hour) + R"(:00:00.000Z"})";
    }
    return net::scripted_response(200, R"({"zone": "DE", "history": [)" + items + "]}");
  });
  const auto found = mean("electricity-maps:DE?url=" + server.url(), whole_hours(3));
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_DOUBLE_EQ(found->grams_per_kwh, 108);
  EXPECT_EQ(found->kind, IntensityKind::kAverageLifecycle);
  EXPECT_EQ(found->zone, "DE");
  EXPECT_THAT(found->source, HasSubstr("mean of 3 values from 2026-01-15T07:00:00Z"));
}

TEST_F(MeanIntensity, WithoutATokenOrAnAnswerItIsAnErrorThatSaysWhatToDo) {
  const auto refused = mean("electricity-maps:DE");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoPermission);
  EXPECT_THAT(refused.error().text(), HasSubstr("set HARPE_ELECTRICITY_MAPS_TOKEN"));
  std::string url;
  {
    net::ScriptedHttpServer gone(
        [](const std::string&) { return net::scripted_response(200, "{}"); });
    url = gone.url();
  }
  const auto silent = mean("uk?url=" + url);
  ASSERT_FALSE(silent.ok());
  EXPECT_EQ(silent.error().code, ErrorCode::kUnavailable);
  EXPECT_DOUBLE_EQ(mean("uk?mean=238&url=" + url)->grams_per_kwh, 238);
}

}  // namespace
}  // namespace harpe::carbon
