// From the text of a source to labelled numbers, over real sockets. Answers are written from the
// providers' documentation; none was recorded.

#include "harpe/carbon/carbon_source/open_source.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "harpe/carbon/carbon_source/source_environment_testing.h"

namespace harpe::carbon {
namespace {

class OpenSource : public testing::Test, public EnvironmentOfATest {
 public:
  std::unique_ptr<CarbonSource> opened(const std::string& text) {
    auto source = open_source(text, environment());
    EXPECT_TRUE(source.ok()) << (source.ok() ? "" : source.error().text());
    return source.ok() ? *std::move(source) : nullptr;
  }
};

TEST_F(OpenSource, ANumberAndAYearlyMeanNeedNoNetwork) {
  const auto number = opened("302.5");
  EXPECT_EQ(number->current().value().intensity.grams_per_kwh, 302.5);
  EXPECT_EQ(number->current().value().ladder, LadderStep::kYearlyMean);
  const auto mean = opened("FR");
  EXPECT_EQ(mean->current().value().intensity.kind, IntensityKind::kAverageLifecycle);
  EXPECT_EQ(mean->forecast(whole_hours(24)).value().expected.size(),
            25u);  // a day that begins within an hour
  EXPECT_EQ(mean->history(now - whole_hours(3), now).value().series.values.front(), 56);
  EXPECT_FALSE(mean->history(now, now - whole_hours(3)).ok());
}

TEST_F(OpenSource, AFileIsReadAndForecast) {
  std::ofstream file(directory / "ci.csv");
  file << "Time,Carbon Intensity\n";
  for (int hour = 0; hour < 24 * 14; ++hour) {
    file << utc_text(now - whole_hours(24 * 14) + whole_hours(hour) - whole_minutes(20)) << ","
         << 200 + 10 * (hour % 24) << "\n";
  }
  file.close();
  const auto source = opened("file:" + (directory / "ci.csv").string());
  const auto current = source->current();
  ASSERT_TRUE(current.ok()) << current.error().text();
  EXPECT_EQ(current->intensity.grams_per_kwh, 200 + 10 * 23);
  const auto forecast = source->forecast(whole_hours(24));
  ASSERT_TRUE(forecast.ok()) << forecast.error().text();
  EXPECT_EQ(forecast->ladder, ForecastStep::kOwn);
  EXPECT_NEAR(forecast->expected.values[5], 250, 10);
  EXPECT_FALSE(open_source("file:" + (directory / "none.csv").string(), environment()).ok());
  EXPECT_FALSE(std::filesystem::exists(directory / "cache"));
}

TEST_F(OpenSource, AMissingTokenSaysWhatToDoBeforeAnythingIsAsked) {
  for (const auto& [text, variable] :
       {std::pair("electricity-maps:DE", "HARPE_ELECTRICITY_MAPS_TOKEN"),
        std::pair("watttime:CAISO_NORTH", "HARPE_WATTTIME_TOKEN"),
        std::pair("entsoe:10Y1001A1001A82H", "HARPE_ENTSOE_TOKEN")}) {
    const auto source = open_source(text, environment());
    ASSERT_FALSE(source.ok());
    EXPECT_EQ(source.error().code, ErrorCode::kNoPermission);
    EXPECT_NE(source.error().text().find(std::string("set ") + variable), std::string::npos);
    SourceEnvironment offline = environment();
    offline.offline = true;
    EXPECT_TRUE(open_source(text, std::move(offline)).ok());
  }
}

TEST_F(OpenSource, TheLastAnswerOutlivesTheNetworkAndTheProcess) {
  variables["HARPE_ELECTRICITY_MAPS_TOKEN"] = "s3cret";
  std::string text;
  {
    net::ScriptedHttpServer server([](const std::string& request) {
      if (request.find("auth-token: s3cret\r\n") == std::string::npos) {
        return net::scripted_response(401, "{}");
      }
      return net::scripted_response(
          200, R"({"zone": "DE", "carbonIntensity": 302, "datetime": "2026-01-15T10:00:00.000Z",
                   "isEstimated": true})");
    });
    text = "electricity-maps:DE?url=" + server.url();
    const auto first = opened(text)->current();
    ASSERT_TRUE(first.ok()) << first.error().text();
    EXPECT_EQ(first->ladder, LadderStep::kFresh);
    EXPECT_TRUE(first->estimated);
  }
  now += whole_hours(2);
  const auto later = opened(text)->current();
  ASSERT_TRUE(later.ok()) << later.error().text();
  EXPECT_EQ(later->ladder, LadderStep::kLastGood);
  EXPECT_EQ(later->intensity.grams_per_kwh, 302);
  EXPECT_TRUE(later->estimated);
  // No file below the cache contains the token.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory / "cache")) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path());
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(content.find("s3cret"), std::string::npos) << entry.path();
  }
}

TEST_F(OpenSource, ARefusedTokenEndsWithAdvice) {
  variables["HARPE_ENTSOE_TOKEN"] = "s3cret";
  net::ScriptedHttpServer server(
      [](const std::string&) { return net::scripted_response(401, "s3cret"); });
  const auto current = opened("entsoe:10Y1001A1001A82H?url=" + server.url())->current();
  ASSERT_FALSE(current.ok());
  EXPECT_EQ(current.error().code, ErrorCode::kNoPermission);
  EXPECT_NE(current.error().text().find("transparency@entsoe.eu"), std::string::npos);
  EXPECT_EQ(current.error().text().find("s3cret"), std::string::npos);
  EXPECT_EQ(server.count(), 1u);
}

TEST_F(OpenSource, EntsoeNamesItsEmissionFactors) {
  variables["HARPE_ENTSOE_TOKEN"] = "s3cret";
  EXPECT_NE(opened("entsoe:10Y1001A1001A82H?factors=B04:370")->method().find("B04 fossil gas 370"),
            std::string::npos);
  EXPECT_EQ(opened("uk")->method(), "");
}

}  // namespace
}  // namespace harpe::carbon
