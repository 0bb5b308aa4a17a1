// `harpe lab reproduce` as a user meets it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harpe/base/file.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/command/command/said_testing.h"
#include "harpe/command/lab_cli/lab_cli.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::command {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using TestJson = nlohmann::json;

class Reproduce : public testing::Test {
 protected:
  void file(const std::string& name, const std::string& text) {
    const auto path = folder_ / name;
    ASSERT_TRUE(ensure_directory(path.parent_path()).ok());
    ASSERT_TRUE(write_file(path, text).ok());
  }
  /// Writes a profile without published results.
  void profile_of(const std::string& gpu) {
    const auto profile = synthesize({.stages = 8, .imbalance = 1.2});
    file("emulation/new-7b_" + gpu + ".csv", profile_csv(*profile));
  }
  Said reproduce(std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"reproduce", "sosp24", folder_.path().string()});
    return harpe_with(add_reproduce_command, options);
  }

  TestDirectory folder_;
};

TEST_F(Reproduce, RecomputesTheTablesOfAProfileThatWasNeverPublished) {
  profile_of("a40");
  const std::string out = (folder_ / "rows.csv").string();
  const Said said = reproduce({"--unit", "1ms", "--json", "--out", out});
  ASSERT_EQ(said.status, 0) << said.err << said.out;
  const TestJson rows = TestJson::parse(said.out)["rows"];
  int savings = 0;
  for (const TestJson& row : rows) {
    EXPECT_EQ(row["workload"], "new-7b");
    EXPECT_EQ(row["gpu"], "a40");
    EXPECT_EQ(row["gpus"].get<int>() * row["micro_batches"].get<int>(), 1024 * 96);
    EXPECT_TRUE(row["published"].is_null());
    EXPECT_TRUE(row["recomputed"].is_number());
    if (row["what"] == "intrinsic_saving_percent") {
      ++savings;
      EXPECT_EQ(row["straggler"], 1);
      EXPECT_GT(row["harpe"].get<double>(), 1);
    }
  }
  EXPECT_EQ(savings, 4);
  const std::string csv = *read_file(out);
  EXPECT_EQ(std::ranges::count(csv, '\n'), static_cast<int>(rows.size()) + 1);
}

TEST_F(Reproduce, PrintsTablesForTerminalsAndNamesWhatItSkips) {
  profile_of("a40");
  file("emulation/notes.csv", "a,b\n");
  const Said said = reproduce({"--unit", "1ms"});
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, AllOf(HasSubstr("Saving of the fastest plan, without a straggler"),
                              HasSubstr("8 192  12"), Not(HasSubstr("Measured runs"))));
  EXPECT_THAT(said.err, HasSubstr("notes.csv: left out"));
  std::istringstream lines(said.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST_F(Reproduce, RefusesWhatItCannotComputeAndWritesNothing) {
  const std::string out = (folder_ / "rows.csv").string();
  EXPECT_THAT(reproduce({"--out", out}).err, HasSubstr("has neither profiles"));
  profile_of("h100");
  EXPECT_THAT(reproduce({"--out", out}).err, HasSubstr("blocking power of h100"));
  for (const char* const unit : {"0", "100", "1e-9"})
    EXPECT_THAT(reproduce({"--unit", unit}).err, HasSubstr("from 0.01 ms to 10 ms")) << unit;
  file("emulation/published_frontiers/h100/new-7b_bf16_mb12.csv", "time,energy\nx,1\n");
  const Said said = reproduce({"--blocking-power", "90", "--out", out});
  EXPECT_EQ(said.status, 2);
  EXPECT_THAT(said.err, HasSubstr("mb12.csv:2:1"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace harpe::command
