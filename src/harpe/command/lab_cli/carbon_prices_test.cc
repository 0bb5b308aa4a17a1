// `harpe carbon simulate` over the table that `harpe carbon prices` writes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "harpe/base/file.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/command/carbon_cli/carbon_cli.h"
#include "harpe/command/carbon_cli/prices_testing.h"
#include "harpe/command/command/said_testing.h"
#include "harpe/command/lab_cli/lab_cli.h"

namespace harpe::command {
namespace {

using TestJson = nlohmann::json;

TEST(CarbonPrices, AreWhatSimulatePacesAJobBy) {
  const TestDirectory directory;
  ::setenv("HARPE_CARBON_CACHE", (directory / "cache").c_str(), 1);
  ::setenv("HARPE_ENTSOE_TOKEN", "s3cret", 1);
  net::ScriptedHttpServer server(prices_answer);
  const std::string csv = (directory / "prices.csv").string();
  const Said prices = harpe_with(add_carbon_command,
                                 {"carbon", "prices", "entsoe:10Y1001A1001A82H?url=" + server.url(),
                                  "--from", "2026-01-01", "--to", "2026-01-21", "--csv", csv});
  ASSERT_EQ(prices.status, 0) << prices.err;

  const std::string frontier = (directory / "frontier.json").string();
  ASSERT_TRUE(write_file(frontier, R"({"format": "harpe.frontier/1", "points": [
      {"iteration_time_s": 1.0, "iteration_energy_j": 300}]})")
                  .ok());
  std::vector<std::string> simulate = {"carbon",     "simulate", "--series", csv,
                                       "--frontier", frontier,   "--hours",  "24",
                                       "--starts",   "1",        "--json"};
  const Said grams = harpe_with(add_carbon_experiment_commands, simulate);
  EXPECT_EQ(grams.status, 2) << "prices are no intensities";
  simulate.emplace_back("--price");
  const Said money = harpe_with(add_carbon_experiment_commands, simulate);
  ASSERT_EQ(money.status, 0) << money.out;
  EXPECT_EQ(TestJson::parse(money.out)["money"], "EUR");
  EXPECT_NEAR(TestJson::parse(money.out)["ways"]["all_max"]["cost"]["mean"], 0.0072 * 6.5, 1e-9);
}

}  // namespace
}  // namespace harpe::command
