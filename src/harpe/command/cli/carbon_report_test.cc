// `harpe carbon report` as a user meets it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harpe/base/file.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/carbon/carbon/ledger_json.h"
#include "harpe/command/carbon_cli/carbon_cli.h"
#include "harpe/command/cli/cli.h"
#include "harpe/command/command/said_testing.h"

namespace harpe::command {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void add_both(Commands& commands) {
  add_carbon_command(commands);
  add_carbon_report_command(commands);
}

class CarbonReport : public ::testing::Test {
 public:
  CarbonReport() {
    carbon::LedgerRun run{.id = "x.1", .job = "gpt3", .start = 1, .user = "alice", .devices = 8};
    EXPECT_TRUE(run.ledger
                    .add(1'795'564'800, 1'795'568'400,
                         {.energy = {3.6e6}, .device_time = {28'800}, .measured = {28'800}})
                    .ok());
    EXPECT_TRUE(write_file(file, carbon::ledger_json({run})).ok());
  }
  Said report(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"carbon", "report"});
    return harpe_with(add_both, arguments);
  }
  TestDirectory directory;
  std::string file = (directory / "gpt3.json").string();
};

TEST_F(CarbonReport, SaysWhatIsQuoted) {
  const std::string csv = (directory / "report.csv").string();
  const std::string page = (directory / "report.html").string();
  const Said said = report({file, "--carbon", "302.5", "--pue", "1.2", "--embodied", "150kg/5y",
                            "--tokens", "1e6", "--csv", csv, "--html", page});
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, AllOf(HasSubstr("1 run used 1.200 kWh"), HasSubstr("363.00 g"),
                              HasSubstr("per token (R = 1 000 000)"), HasSubstr("PUE of 1.2")));
  EXPECT_THAT(read_file(csv).value(), HasSubstr("\ngpt3,1,"));
  EXPECT_THAT(read_file(page).value(), HasSubstr("<svg"));
  const Said json = report({file, "--carbon", "302.5", "--json"});
  ASSERT_EQ(json.status, 0) << json.err;
  EXPECT_NEAR(nlohmann::json::parse(json.out)["total"]["grams"].get<double>(), 302.5, 1e-9);
}

TEST_F(CarbonReport, CountsTokensThatTheJobTellsOf) {
  carbon::LedgerRun run{.id = "x.1", .job = "gpt3", .start = 1, .tokens_per_iteration = 5e5};
  ASSERT_TRUE(
      run.ledger.add(1'795'564'800, 1'795'568'400, {.energy = {3.6e6}, .iterations = 20}).ok());
  ASSERT_TRUE(write_file(file, carbon::ledger_json({run})).ok());
  const Said said = report({file, "--carbon", "302.5", "--per", "token"});
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("per token (R = 10 000 000)"));
}

TEST_F(CarbonReport, CountsTheSameFileOnce) {
  const Said said = report({file, file, "--carbon", "DE"});
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, AllOf(HasSubstr("1 run used 1.000 kWh"), HasSubstr("it counts once")));
}

TEST_F(CarbonReport, SaysWhatIsWrong) {
  const auto refused = [&](std::vector<std::string> arguments, int status) {
    const Said said = report(std::move(arguments));
    EXPECT_EQ(said.status, status) << said.out << said.err;
    return said.err;
  };
  EXPECT_THAT(refused({"--carbon", "DE"}, 2), HasSubstr("no input: give reports"));
  EXPECT_THAT(refused({file}, 2), HasSubstr("--carbon"));
  EXPECT_THAT(refused({file, "--carbon", "DDE"}, 2), HasSubstr("unknown source"));
  EXPECT_THAT(refused({file, "--carbon", "electricity-maps:DE"}, 77), HasSubstr("token"));
  EXPECT_THAT(refused({file, "--carbon", "uk", "--offline"}, 69), HasSubstr("history"));
  EXPECT_THAT(refused({file, "--carbon", "DE", "--pue", "0.9"}, 2), HasSubstr("1 to 10"));
  EXPECT_THAT(refused({file, "--carbon", "DE", "--per", "token"}, 2), HasSubstr("--units"));
  EXPECT_THAT(refused({file, "--carbon", "DE", "--by", "day"}, 2), HasSubstr("job, run or user"));
  EXPECT_THAT(refused({file, "--carbon", "DE", "--to", "2020-01-01"}, 2), HasSubstr("no energy"));
  const std::string later = (directory / "later.json").string();
  ASSERT_TRUE(write_file(later, R"({"format": "harpe.energy/2", "runs": []})").ok());
  EXPECT_THAT(refused({file, later, "--carbon", "DE"}, 2), HasSubstr("later version of Harpe"));
  EXPECT_THAT(refused({"none.json", "--carbon", "DE"}, 2), HasSubstr("none.json"));
}

}  // namespace
}  // namespace harpe::command
