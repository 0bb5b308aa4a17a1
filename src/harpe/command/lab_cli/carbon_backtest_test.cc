// `harpe carbon backtest` as a user meets it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "harpe/base/file.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/command/command/said_testing.h"
#include "harpe/command/lab_cli/lab_cli.h"

namespace harpe::command {
namespace {

using ::testing::HasSubstr;
using TestJson = nlohmann::json;

Said carbon_backtest(const std::vector<std::string>& arguments) {
  return harpe_with(add_carbon_experiment_commands, arguments);
}

class CarbonBacktest : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    const std::string path = (directory_.path() / name).string();
    EXPECT_TRUE(write_file(path, text).ok());
    return path;
  }
  /// Writes days with a daily swing that grows and shrinks, from a date on.
  std::string series(const std::string& name, const char* start, int days) {
    std::string text = "Time,Carbon Intensity\n";
    for (int i = 0; i < 24 * days; ++i) {
      const auto time = carbon::parse_utc(start).value() + carbon::whole_hours(i);
      const double swing = 60 + 30 * std::sin(i / 97.0);
      text += carbon::utc_text(time) + "," +
              std::to_string(200 + swing * std::sin(i * 6.2831853 / 24)) + "\n";
    }
    return file(name, text);
  }
  TestDirectory directory_;
};

TEST_F(CarbonBacktest, PrintsRatiosCoverageAndTheirMean) {
  const std::string csv = (directory_.path() / "figures.csv").string();
  const Said said = carbon_backtest({"carbon", "backtest", series("b.csv", "2022-01-31", 30),
                                     "--train", series("a.csv", "2022-01-01", 30), "--horizons",
                                     "48", "--csv", csv, "--json"});
  ASSERT_EQ(said.status, 0) << said.err << said.out;
  const TestJson document = TestJson::parse(said.out);
  double mean = 0;
  for (const char* hours : {"1", "3", "6", "12", "18", "24"}) {
    mean += document["error_over_same_hour"][hours].get<double>() / 6;
  }
  EXPECT_NEAR(document["mean"].get<double>(), mean, 1e-12);
  EXPECT_EQ(document["error_over_same_hour"].size(), 7U);
  EXPECT_EQ(document["coverage_80"].size(), 3U);  // January 31 to March 1
  EXPECT_TRUE(document["coverage_80"].contains("2022-02"));
  EXPECT_EQ(document["horizons"]["48"]["forecasts"], 24 * 30);
  EXPECT_FALSE(document.contains("without_exogenous"));
  const std::string table = read_file(csv).value();
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 8);
}

TEST_F(CarbonBacktest, JudgesWithAndWithoutExogenousValues) {
  const std::string path = series("s.csv", "2022-01-01", 40);
  const Said said =
      carbon_backtest({"carbon", "backtest", path, "--exogenous", path, "--exogenous-columns",
                       "Carbon Intensity", "--known-ahead", "24h", "--json"});
  ASSERT_EQ(said.status, 0) << said.err << said.out;
  const TestJson document = TestJson::parse(said.out);
  EXPECT_TRUE(document["members_error_over_same_hour"].contains("narrow-ridge-exogenous"));
  EXPECT_TRUE(document["without_exogenous"].contains("mean"));
  const Said table = carbon_backtest({"carbon", "backtest", path, "--exogenous", path});
  EXPECT_THAT(table.out, HasSubstr("without exogenous values"));
}

TEST_F(CarbonBacktest, ShowsATableForPeople) {
  const Said said = carbon_backtest(
      {"carbon", "backtest", series("s.csv", "2022-01-01", 10), "--chase", "24", "--every", "6"});
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("kind not stated, 2022-01-01T00:00:00Z to 2022-01-11T00:00:00Z"));
  EXPECT_THAT(said.out, HasSubstr("mean of 1, 3, 6, 12, 18 and 24 h"));
  EXPECT_THAT(said.out, HasSubstr("Chase's regression"));
}

TEST_F(CarbonBacktest, ReadsAnyTableAndAveragesIt) {
  std::string text = "t,v\n";
  for (int i = 0; i < 288 * 4; ++i) {
    text +=
        carbon::utc_text(carbon::parse_utc("2022-01-01").value() + carbon::whole_minutes(5 * i)) +
        ",1000\n";
  }
  const std::vector<std::string> arguments = {"carbon",
                                              "backtest",
                                              file("m.csv", text),
                                              "--time-column",
                                              "t",
                                              "--value-column",
                                              "v",
                                              "--unit",
                                              "lb/MWh",
                                              "--kind",
                                              "marginal"};
  EXPECT_THAT(carbon_backtest(arguments).err, HasSubstr("15 min to 6 h"));
  std::vector<std::string> averaged = arguments;
  averaged.insert(averaged.end(), {"--average", "1h", "--json"});
  const Said said = carbon_backtest(averaged);
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_EQ(TestJson::parse(said.out)["kind"], "marginal");
  EXPECT_EQ(TestJson::parse(said.out)["step_s"], 3600);
}

TEST_F(CarbonBacktest, RefusesBadInput) {
  const std::string path = series("s.csv", "2022-01-01", 4);
  for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{
           {"--horizons", "0"},
           {"--horizons", "1,,2"},
           {"--horizons", "97"},
           {"--every", "25"},
           {"--unit", "percent"},
           {"--kind", "best"},
           {"--average", "7min"},
           {"--average", "30min"},
           {"--known-ahead", "97h"},
           {"--train", path},
           {"--exogenous", "nowhere.csv"},
           {"--chase", "9999"},
           {"--kind", "marginal"},
           {"--zone", "ES", "--any-value", "--time-column", "x"}}) {
    std::vector<std::string> arguments = {"carbon", "backtest", path};
    arguments.insert(arguments.end(), options.begin(), options.end());
    EXPECT_EQ(carbon_backtest(arguments).status, 2) << options[0] << " " << options[1];
  }
  EXPECT_EQ(carbon_backtest({"carbon", "backtest", "nowhere.csv"}).status, 2);
  const Said said = carbon_backtest({"carbon", "backtest", file("x.csv", "a,b\n1,2\n")});
  EXPECT_EQ(said.status, 2);
  EXPECT_THAT(said.err, HasSubstr("the layout is unknown"));
}

}  // namespace
}  // namespace harpe::command
