// `harpe carbon simulate` as a user meets it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "harpe/base/file.h"
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
