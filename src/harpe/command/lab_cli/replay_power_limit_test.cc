// `harpe replay power-limit` as a user meets it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harpe/base/file.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/command/command/said_testing.h"
#include "harpe/command/lab_cli/lab_cli.h"

namespace harpe::command {
namespace {

using ::testing::HasSubstr;
using TestJson = nlohmann::json;

Said replay_power_limit(const std::vector<std::string>& arguments) {
  return harpe_with(add_replay_command, arguments);
}

class ReplayPowerLimit : public ::testing::Test {
 protected:
  std::string file(const std::string& text) {
    const std::string path = (directory_.path() / "run.csv").string();
    EXPECT_TRUE(write_file(path, text).ok());
    return path;
  }
  /// Writes a run in which 250 W is the cheapest limit.
  std::string run() {
    return file(
        "start_time,window_name,elapsed_time,gpu0_energy\n"
        "1,__GlobalPowerLimitOptimizer_300,10,2800\n"
        "2,__GlobalPowerLimitOptimizer_250,10.5,2500\n"
        "3,__GlobalPowerLimitOptimizer_200,12,2300\n");
  }
  TestDirectory directory_;
};

TEST_F(ReplayPowerLimit, PrintsTheChoiceAndTheSetCalls) {
  const Said said = replay_power_limit({"replay", "power-limit", run(), "--eta", "0.5", "--json"});
  ASSERT_EQ(said.status, 0) << said.err << said.out;
  const TestJson document = TestJson::parse(said.out);
  EXPECT_EQ(document["power_limit_w"], 250);
  EXPECT_EQ(document["set_calls"], TestJson::parse("[[0,300],[52,250],[102,200],[152,250]]"));
  EXPECT_EQ(document["done_step"], 152);
  EXPECT_LE(document["harpe"]["done_step"], 76);
  EXPECT_EQ(document["settings"].size(), 3U);
}

TEST_F(ReplayPowerLimit, TakesEachSelector) {
  const auto chosen = [&](const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"replay", "power-limit", run(), "--json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Said said = replay_power_limit(arguments);
    return said.status == 0 ? TestJson::parse(said.out)["power_limit_w"].get<int>() : -1;
  };
  EXPECT_EQ(chosen({"--selector", "energy"}), 200);
  EXPECT_EQ(chosen({"--selector", "time"}), 300);
  EXPECT_EQ(chosen({"--selector", "max-slowdown", "--slowdown", "1.1"}), 250);
  EXPECT_EQ(chosen({"--selector", "energy", "--host-power", "500W"}), 250);
  EXPECT_EQ(chosen({"--steps-per-epoch", "7"}), 250);
}

TEST_F(ReplayPowerLimit, ShowsATableForPeople) {
  const Said said = replay_power_limit({"replay", "power-limit", run()});
  EXPECT_EQ(said.status, 0);
  EXPECT_THAT(said.out, HasSubstr("cost J"));
  EXPECT_THAT(said.out, HasSubstr("Zeus: 250 W after 152 steps"));
}

TEST_F(ReplayPowerLimit, RefusesBadInput) {
  EXPECT_EQ(replay_power_limit({"replay", "power-limit", run(), "--eta", "1.5"}).status, 2);
  EXPECT_EQ(replay_power_limit({"replay", "power-limit", run(), "--eta", "nan"}).status, 2);
  EXPECT_EQ(replay_power_limit({"replay", "power-limit", run(), "--slowdown", "0.9"}).status, 2);
  EXPECT_EQ(replay_power_limit({"replay", "power-limit", run(), "--selector", "best"}).status, 2);
  EXPECT_EQ(replay_power_limit({"replay", "power-limit", run(), "--steps-per-epoch", "0"}).status,
            2);
  EXPECT_EQ(replay_power_limit({"replay", "power-limit", "nowhere.csv"}).status, 2);
  const Said said =
      replay_power_limit({"replay", "power-limit", file("window_name,elapsed_time,gpu0_energy\n")});
  EXPECT_EQ(said.status, 2);
  EXPECT_THAT(said.err, HasSubstr("no window"));
}

}  // namespace
}  // namespace harpe::command
