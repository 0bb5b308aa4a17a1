// `harpe carbon now`, `history` and `forecast` as a user meets them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "harpe/base/file.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/carbon/carbon/intensity_csv.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/carbon/carbon_source/open_source.h"
#include "harpe/command/carbon_cli/carbon_cli.h"
#include "harpe/command/carbon_cli/prices_testing.h"
#include "harpe/command/command/said_testing.h"
#include "harpe/net/http_client/scripted_http_testing.h"

namespace harpe::command {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using TestJson = nlohmann::json;

Said harpe_carbon(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "carbon");
  return harpe_with(add_carbon_command, arguments);
}

class CarbonSourceCommands : public ::testing::Test {
 public:
  CarbonSourceCommands() {
    ::setenv("HARPE_CARBON_CACHE", (directory / "cache").c_str(), 1);
    ::setenv("XDG_CONFIG_HOME", (directory / "config").c_str(), 1);
    ::unsetenv("HARPE_ELECTRICITY_MAPS_TOKEN");
  }
  TestDirectory directory;
};

/// Responds as Electricity Maps: 30 days of 100 g/kWh plus the hour of the day; the latest is 123.
std::string maps_answer(const std::string& request) {
  const auto now = carbon::interval_of(carbon::utc_clock()(), carbon::whole_hours(1));
  if (request.find("/latest?") != std::string::npos) {
    return net::scripted_response(200,
                                  R"({"zone": "DE", "carbonIntensity": 123, "isEstimated": true,
                                      "datetime": ")" +
                                      carbon::utc_text(now) + "\"}");
  }
  if (request.find("/forecast?") != std::string::npos) return net::scripted_response(404, "{}");
  std::string items;
  for (int i = 30 * 24; i > 0; --i) {
    const auto time = now - carbon::whole_hours(i);
    items += std::string(items.empty() ? "" : ",") + R"({"carbonIntensity": )" +
             std::to_string(100 + time.since_1970 / 3600 % 24) + R"(, "datetime": ")" +
             carbon::utc_text(time) + "\"}";
  }
  return net::scripted_response(200, R"({"zone": "DE", "history": [)" + items + "]}");
}

TEST_F(CarbonSourceCommands, NowSaysWhatTheNumberIs) {
  ::setenv("HARPE_ELECTRICITY_MAPS_TOKEN", "s3cret", 1);
  net::ScriptedHttpServer server(maps_answer);
  const std::string source = "electricity-maps:DE?url=" + server.url();
  const Said text = harpe_carbon({"now", source});
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("123 gCO2eq/kWh"));
  EXPECT_THAT(text.out, HasSubstr("average, life cycle"));
  EXPECT_THAT(text.out, HasSubstr("ladder: fresh"));
  EXPECT_THAT(text.out, HasSubstr("estimated"));
  const Said json = harpe_carbon({"now", source, "--json", "--offline"});
  ASSERT_EQ(json.status, 0) << json.out;
  const TestJson document = TestJson::parse(json.out);
  EXPECT_EQ(document["grams_per_kwh"], 123);
  EXPECT_EQ(document["kind"], "life-cycle");
  EXPECT_EQ(document["unit"], "gCO2eq/kWh");
  EXPECT_EQ(document["ladder"], "fresh");
  EXPECT_EQ(document["control_allowed"], true);
  EXPECT_EQ(document["estimated"], true);
  EXPECT_TRUE(document["fetched_at"].is_string());
  EXPECT_EQ(server.count(), 1u);
}

TEST_F(CarbonSourceCommands, HistoryWritesATableThatCanBeReadAgain) {
  ::setenv("HARPE_ELECTRICITY_MAPS_TOKEN", "s3cret", 1);
  net::ScriptedHttpServer server(maps_answer);
  const std::string csv = (directory / "history.csv").string();
  const auto now = carbon::interval_of(carbon::utc_clock()(), carbon::whole_hours(1));
  const Said said = harpe_carbon({"history", "electricity-maps:DE?url=" + server.url(), "--from",
                                  carbon::utc_text(now - carbon::whole_hours(12)), "--to",
                                  carbon::utc_text(now), "--csv", csv});
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("12 values of 60 min"));
  const auto series = carbon::parse_intensity_csv(read_file(csv).value(), csv,
                                                  {.time_column = "time",
                                                   .value_column = "grams_per_kwh",
                                                   .unit = 1.0,
                                                   .kind = IntensityKind::kAverageLifecycle});
  ASSERT_TRUE(series.ok()) << series.error().text();
  EXPECT_EQ(series->size(), 12u);
  EXPECT_EQ(series->start, now - carbon::whole_hours(12));
}

TEST_F(CarbonSourceCommands, ForecastIsHarpesOwnWhereTheProviderHasNone) {
  ::setenv("HARPE_ELECTRICITY_MAPS_TOKEN", "s3cret", 1);
  net::ScriptedHttpServer server(maps_answer);
  const std::string source = "electricity-maps:DE?url=" + server.url();
  const std::string csv = (directory / "forecast.csv").string();
  const Said json = harpe_carbon({"forecast", source, "--horizon", "12h", "--csv", csv, "--json"});
  ASSERT_EQ(json.status, 0) << json.out;
  const TestJson document = TestJson::parse(json.out);
  EXPECT_EQ(document["ladder"], "own forecast");
  ASSERT_EQ(document["values"].size(), 12u);
  for (const TestJson& value : document["values"]) {
    const auto time = carbon::parse_utc(value["start"].get<std::string>()).value();
    EXPECT_NEAR(value["grams_per_kwh"].get<double>(),
                100 + static_cast<double>(time.since_1970 / 3600 % 24), 4);
    EXPECT_TRUE(value["lower"].is_number());
  }
  EXPECT_FALSE(document["notes"].empty());
  EXPECT_THAT(read_file(csv).value(), HasSubstr("time,grams_per_kwh,lower,upper\n"));
  const Said text = harpe_carbon({"forecast", source, "--horizon", "12h"});
  EXPECT_THAT(text.out, HasSubstr("ladder: own forecast"));
  EXPECT_THAT(text.out, HasSubstr("80 % interval"));
}

TEST_F(CarbonSourceCommands, PricesArePrintedAndWrittenAsATable) {
  ::setenv("HARPE_ENTSOE_TOKEN", "s3cret", 1);
  net::ScriptedHttpServer server(prices_answer);
  const std::string source = "entsoe:10Y1001A1001A82H?url=" + server.url();
  const std::string csv = (directory / "prices.csv").string();
  const std::vector<std::string> ask = {"prices", source,       "--from", "2026-01-01",
                                        "--to",   "2026-01-21", "--csv",  csv};
  const Said said = harpe_carbon(ask);
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("mean 6.50, lowest -5.00, highest 18.00 EUR/MWh"));
  EXPECT_THAT(said.out, HasSubstr("100 below 0, 0 not known"));
  EXPECT_THAT(read_file(csv).value(), HasSubstr("\ntime,EUR/MWh\n2026-01-01T00:00:00Z,-5\n"));
  const TestJson json = TestJson::parse(
      harpe_carbon({"prices", source, "--from", "2026-01-01", "--to", "2026-01-02", "--json"}).out);
  EXPECT_EQ(json["unit"], "EUR/MWh");
  EXPECT_EQ(json["kind"], "price");
  EXPECT_EQ(json["values"].size(), 24U);
  EXPECT_EQ(json["values"][1]["price"], -4);
}

TEST_F(CarbonSourceCommands, PricesThatCannotBeHadAreSaidSo) {
  ::unsetenv("HARPE_ENTSOE_TOKEN");
  EXPECT_THAT(harpe_carbon({"prices", "uk"}).err,
              HasSubstr("prices are available only from entsoe:EIC"));
  const Said token = harpe_carbon({"prices", "entsoe:10Y1001A1001A82H"});
  EXPECT_EQ(token.status, 77);
  EXPECT_THAT(token.err, HasSubstr("HARPE_ENTSOE_TOKEN"));
}

TEST_F(CarbonSourceCommands, ErrorsSayWhatToDo) {
  const Said token = harpe_carbon({"now", "electricity-maps:DE"});
  EXPECT_EQ(token.status, 77);
  EXPECT_THAT(token.err, HasSubstr("HARPE_ELECTRICITY_MAPS_TOKEN"));
  const Said typo = harpe_carbon({"now", "electricitymaps:DE"});
  EXPECT_EQ(typo.status, 2);
  EXPECT_THAT(typo.err, HasSubstr("electricity-maps"));
  EXPECT_EQ(harpe_carbon({"history", "DE", "--from", "yesterday"}).status, 2);
  EXPECT_EQ(harpe_carbon({"forecast", "DE", "--horizon", "200h"}).status, 2);
  EXPECT_EQ(harpe_carbon({"now"}).status, 2);
  const Said offline = harpe_carbon({"now", "uk", "--offline"});
  EXPECT_EQ(offline.status, 69);
  EXPECT_THAT(offline.err, HasSubstr("no yearly mean was given"));
  const Said mean = harpe_carbon({"now", "uk?mean=238", "--offline"});
  EXPECT_EQ(mean.status, 0);
  EXPECT_THAT(mean.out, HasSubstr("ladder: yearly mean; too uncertain for carbon control"));
}

TEST_F(CarbonSourceCommands, AYearlyMeanIsNotOfAnHour) {
  for (const char* source : {"DE", "302.5"}) {
    const Said said = harpe_carbon({"now", source});
    EXPECT_THAT(said.out,
                HasSubstr("\nthe same for every hour: not specific to the present hour\n"));
    EXPECT_THAT(said.out, Not(HasSubstr(" UTC")));
    const TestJson document = TestJson::parse(harpe_carbon({"now", source, "--json"}).out);
    EXPECT_TRUE(document["start"].is_null()) << document;
    EXPECT_TRUE(document["end"].is_null()) << document;
    for (const char* rows : {"history", "forecast"})
      EXPECT_THAT(harpe_carbon({rows, source}).out,
                  HasSubstr("\none number, the same for every hour"));
  }
}

TEST_F(CarbonSourceCommands, ANumberIsOfNoStatedKind) {
  const Said said = harpe_carbon({"now", "302.5"});
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("kind not stated"));
  EXPECT_THAT(harpe_carbon({"forecast", "FR", "--horizon", "2h"}).out,
              HasSubstr("ladder: persistence"));
}

}  // namespace
}  // namespace harpe::command
