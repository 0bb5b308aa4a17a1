// `harpe carbon simulate` as a user meets it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harpe/base/file.h"
#include "harpe/base/source_tree_testing.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/carbon/utc_time.h"
#include "harpe/carbon_cli/carbon_cli.h"
#include "harpe/carbon_cli/pace_choices.h"
#include "harpe/command/said_testing.h"

namespace harpe {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

Said harpe(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"carbon", "simulate"});
  return harpe_with(add_carbon_command, arguments);
}

constexpr const char* kFrontier =
    R"({"format": "harpe.frontier/1", "points": [
      {"iteration_time_s": 1.0, "iteration_energy_j": 300},
      {"iteration_time_s": 1.1, "iteration_energy_j": 260},
      {"iteration_time_s": 1.3, "iteration_energy_j": 240}]})";

class CarbonSimulate : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    const std::string path = (directory_.path() / name).string();
    EXPECT_TRUE(write_file(path, text).ok());
    return path;
  }
  /// Days with so much of a swing.
  std::string series(double swing, int days) {
    std::string text = "Time,Carbon Intensity\n";
    for (int i = 0; i < 24 * days; ++i) {
      const auto time = parse_utc("2022-01-01").value() + whole_hours(i);
      text +=
          utc_text(time) + "," + std::to_string(200 + swing * std::sin(i * 6.2831853 / 24)) + "\n";
    }
    return file("series.csv", text);
  }
  TestDirectory directory_;
};

TEST_F(CarbonSimulate, WhereDaysSwingAForecastIsNearHindsight) {
  const Said said = harpe({"--series", series(120, 40), "--frontier",
                           file("frontier.json", kFrontier), "--hours", "24", "--deadline-factor",
                           "1.5", "--pause", "--idle-power", "30W", "--starts", "12", "--json"});
  ASSERT_EQ(said.status, 0) << said.err;
  const Json json = Json::parse(said.out);
  EXPECT_EQ(json["starts"], 12);
  EXPECT_EQ(json["all_max_known"], false) << "a frontier has no all-max";
  EXPECT_EQ(json["ways"]["harpe"]["late"], 0);
  EXPECT_EQ(json["ways"]["hindsight"]["late"], 0);
  EXPECT_GT(json["saving_over_static"]["hindsight"], 0.05);
  EXPECT_LE(json["saving_over_static"]["harpe"], json["saving_over_static"]["bound"]);
  EXPECT_GT(json["share_of_hindsight"], 0.8);
  EXPECT_GT(json["ways"]["harpe"]["pauses"]["mean"], 0.5);
  EXPECT_GT(json["ways"]["all_max"]["grams"]["mean"], json["ways"]["static"]["grams"]["mean"]);
}

TEST_F(CarbonSimulate, SaysWhereNothingIsToBeGained) {
  const Said said =
      harpe({"--series", series(5, 20), "--profile", file("limits.json", R"({"measurements": [
                             {"power_limit": 300, "energy": 3000, "time": 10},
                             {"power_limit": 200, "energy": 2500, "time": 11}]})"),
             "--hours", "12", "--starts", "5"});
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("Nothing is to be gained here"));
  EXPECT_THAT(said.out, HasSubstr("best static"));
  EXPECT_THAT(said.out, HasSubstr("all-max"));
}

TEST_F(CarbonSimulate, AGuardKeepsEveryStartNearTheStaticPace) {
  const Said said = harpe({"--series", series(120, 40), "--frontier",
                           file("frontier.json", kFrontier), "--hours", "24", "--deadline-factor",
                           "1.5", "--pause", "--guard", "2%", "--starts", "12", "--json"});
  ASSERT_EQ(said.status, 0) << said.err;
  const Json json = Json::parse(said.out);
  EXPECT_EQ(json["guard"], 0.02);
  EXPECT_LE(json["worst_over_static"], 0.03);
}

TEST_F(CarbonSimulate, OfUnknownLengthItIsNotTold) {
  const Said said =
      harpe({"--series", series(120, 40), "--frontier", file("frontier.json", kFrontier), "--hours",
             "48", "--deadline-factor", "1.8", "--pause", "--idle-power", "0W", "--unknown-length",
             "--slack", "10h", "--starts", "8", "--json"});
  ASSERT_EQ(said.status, 0) << said.err;
  const Json json = Json::parse(said.out);
  EXPECT_EQ(json["slack_hours"], 10);
  EXPECT_EQ(json["ways"]["harpe"]["late"], 0);
  EXPECT_GT(json["saving_over_static"]["harpe"], 0.03);
  EXPECT_LE(json["saving_over_static"]["harpe"], json["saving_over_static"]["bound"]);
  EXPECT_THAT(harpe({"--series", series(120, 40), "--frontier", file("frontier.json", kFrontier),
                     "--unknown-length", "--guard", "3%"})
                  .err,
              HasSubstr("a guard needs a deadline"));
}

TEST_F(CarbonSimulate, PricesArePaidInMoneyAndMayBeNegative) {
  std::string text = "t,v\n";
  for (int i = 0; i < 24 * 40; ++i) {
    const auto time = parse_utc("2022-01-01").value() + whole_hours(i);
    text += utc_text(time) + "," + std::to_string(60 + 80 * std::sin(i * 6.2831853 / 24)) + "\n";
  }
  const std::string prices = file("prices.csv", text);
  const std::string frontier = file("frontier.json", kFrontier);
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--series",
                                          prices,
                                          "--frontier",
                                          frontier,
                                          "--hours",
                                          "24",
                                          "--deadline-factor",
                                          "1.5",
                                          "--pause",
                                          "--idle-power",
                                          "0W",
                                          "--starts",
                                          "6",
                                          "--time-column",
                                          "t",
                                          "--value-column",
                                          "v"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return harpe(arguments);
  };
  const Said said = run({"--price", "--unit", "EUR/MWh", "--json"});
  ASSERT_EQ(said.status, 0) << said.err;
  const Json json = Json::parse(said.out);
  EXPECT_EQ(json["money"], "EUR");
  EXPECT_FALSE(json["ways"]["harpe"].contains("grams"));
  EXPECT_GT(json["share_of_hindsight"], 0.7);
  // 86400 pieces of 300 J are 7.2 kWh, at 60 EUR/MWh on average over whole days.
  EXPECT_NEAR(json["ways"]["all_max"]["cost"]["mean"], 0.0072 * 60, 1e-3);
  const Said cents = run({"--unit", "ct/kWh", "--json"});
  EXPECT_NEAR(Json::parse(cents.out)["ways"]["all_max"]["cost"]["mean"], 7.2 * 60, 1);
  EXPECT_THAT(run({"--unit", "EUR/MWh"}).out, HasSubstr("EUR       kWh"));
  EXPECT_THAT(run({"--price"}).err, HasSubstr("tell the unit"));
  EXPECT_THAT(run({"--unit", "EUR/MWh", "--kind", "marginal"}).err, HasSubstr("no kind"));
  EXPECT_THAT(run({"--unit", "EUR/MWh", "--embodied", "150kg/5y"}).err, HasSubstr("do not add"));
}

TEST_F(CarbonSimulate, WhatIsKnownAheadIsWorthSomething) {
  std::string text = "Time,Carbon Intensity\n", wind = "time,wind\n";
  std::uint64_t state = 7;
  double level = 0;
  for (int i = 0; i < 24 * 80; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    if (i % 8 == 0) level = static_cast<double>(state >> 40) / (1 << 24);
    const auto time = utc_text(parse_utc("2022-01-01").value() + whole_hours(i));
    text += time + "," + std::to_string(100 + 300 * level) + "\n";
    wind += time + "," + std::to_string(1 - level) + "\n";
  }
  const std::string grid = file("grid.csv", text), frontier = file("frontier.json", kFrontier);
  const auto share = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "--series", grid,      "--frontier",   frontier, "--hours",  "12", "--deadline-factor",
        "1.6",      "--pause", "--idle-power", "0W",     "--starts", "40", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Said said = harpe(arguments);
    EXPECT_EQ(said.status, 0) << said.err;
    return Json::parse(said.out)["share_of_hindsight"].get<double>();
  };
  const double without = share({});
  EXPECT_GT(share({"--exogenous", file("wind.csv", wind), "--known-ahead", "24h"}), without + 0.05);
  // Plans of an hour at a time are searched for less long than the one of hindsight.
  EXPECT_GT(share({"--error-share", "0%"}), 0.95);
  EXPECT_GT(share({"--error-share", "30%"}), without);
}

// Facts that Chase's figures must be read with: its rule does on its own trace what one power limit
// does that takes as long.
TEST_F(CarbonSimulate, ChasesGainIsThatOfAPowerLimit) {
  const auto data = measured_data();
  if (!exists(data / "carbon") || !exists(data / "zeus")) GTEST_SKIP() << "no data (HARPE_SHARED)";
  const std::string traces = read_file(data / "zeus" / "traces" / "summary_power_a40.csv").value();
  struct Row {
    int batch;
    double emissions, time, limit_emissions;
  };
  // %, over 300 W; the last is of one limit.
  for (const Row& row :
       {Row{128, -10.0, 1.7, -10.0}, Row{192, -10.7, 1.5, -8.7}, Row{256, -15.2, 1.6, -15.2},
        Row{360, 0, 0, 0}, Row{512, -10.4, 0.6, -10.4}}) {
    SCOPED_TRACE("batch size " + std::to_string(row.batch));
    std::map<int, std::string, std::greater<>> limits;
    std::istringstream lines(traces);
    for (std::string line; std::getline(lines, line);) {
      const std::string key = "imagenet,resnet50," + std::to_string(row.batch) + ",adadelta,";
      if (!line.starts_with(key)) continue;
      int limit = 0;
      double time = 0, power = 0;
      ASSERT_EQ(std::sscanf(line.c_str() + key.size(), "%d,%lf,%lf", &limit, &time, &power), 3);
      limits[limit] = Json{{"power_limit", limit}, {"energy", time * power}, {"time", time}}.dump();
    }
    std::string profile;
    for (const auto& [limit, text] : limits) profile += (profile.empty() ? "" : ",") + text;
    const Said said =
        harpe({"--series", (data / "carbon" / "miso_2022-10_half-hourly.csv").string(), "--profile",
               file("limits.json", R"({"measurements": [)" + profile + "]}"), "--hours", "24",
               "--deadline-factor", "1.05", "--chase-eta", "0.24", "--chase-power", "300W",
               "--starts", "40", "--json"});
    ASSERT_EQ(said.status, 0) << said.err;
    const Json ways = Json::parse(said.out)["ways"];
    EXPECT_NEAR(ways["chase"]["over_all_max"]["emissions"], row.emissions / 100, 1e-3);
    EXPECT_NEAR(ways["chase"]["over_all_max"]["time"], row.time / 100, 1e-3);
    EXPECT_NEAR(ways["chase_static"]["over_all_max"]["emissions"], row.limit_emissions / 100, 1e-3);
  }
}

TEST_F(CarbonSimulate, WhatIsWrongIsNamed) {
  const std::string good = series(50, 10);
  const std::string frontier = file("frontier.json", kFrontier);
  EXPECT_THAT(harpe({"--series", good}).err, HasSubstr("--frontier frontier.json"));
  EXPECT_THAT(harpe({"--series", good, "--frontier", frontier, "--profile", frontier}).err,
              HasSubstr("give one of"));
  EXPECT_THAT(harpe({"--series", good, "--frontier", file("x.json", "{}")}).err,
              HasSubstr("expected a frontier"));
  EXPECT_THAT(harpe({"--series", good, "--frontier", frontier, "--hours", "1000"}).err,
              HasSubstr("longer than the series"));
  EXPECT_EQ(harpe({"--series", good, "--frontier", frontier, "--deadline-factor", "0.5"}).status,
            2);
}

TEST(PaceChoices, OfEachKindOfFile) {
  const auto frontier = parse_pace_choices(kFrontier, "f");
  ASSERT_TRUE(frontier.ok());
  EXPECT_EQ(frontier->pieces.size(), 3U);
  EXPECT_FALSE(frontier->all_max.has_value());
  EXPECT_FALSE(parse_pace_choices("{", "f").ok());
  EXPECT_FALSE(parse_pace_choices(R"({"format": "harpe.frontier/1", "points": []})", "f").ok());
  EXPECT_FALSE(parse_pace_choices(
                   R"({"format": "harpe.frontier/1", "points": [{"iteration_time_s": -1}]})", "f")
                   .ok());
}

}  // namespace
}  // namespace harpe
