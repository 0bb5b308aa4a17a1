// `harpe replay groups` and `harpe replay zeus --groups` as a user meets them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harpe/base/file.h"
#include "harpe/base/source_tree_testing.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/command/command/said_testing.h"
#include "harpe/command/lab_cli/lab_cli.h"

namespace harpe::command {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using TestJson = nlohmann::json;

Said replay_groups(const std::vector<std::string>& arguments) {
  return harpe_with(add_replay_command, arguments);
}

class ReplayGroups : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (directory_.path() / name).string(); }
  TestDirectory directory_;
};

TEST_F(ReplayGroups, WritesThatTheyAreSynthetic) {
  const Said said = replay_groups({"replay", "groups", "--out", path("groups.csv"), "--groups", "2",
                                   "--jobs", "5", "--seed", "7", "--json"});
  ASSERT_EQ(said.status, 0) << said.err << said.out;
  EXPECT_EQ(TestJson::parse(said.out)["jobs"], 60);
  EXPECT_THAT(read_file(path("groups.csv")).value(), StartsWith("# Synthetic groups"));
}

TEST_F(ReplayGroups, ComparesTheWaysOverWhatWasWritten) {
  const std::filesystem::path traces = measured_data() / "zeus" / "traces";
  if (!exists(traces)) GTEST_SKIP() << "Zeus's traces are not there (HARPE_SHARED)";
  ASSERT_EQ(replay_groups({"replay", "groups", "--out", path("groups.csv"), "--groups", "1",
                           "--jobs", "30", "--in-flight", "1.5"})
                .status,
            0);
  const Said said =
      replay_groups({"replay", "zeus", traces.string(), "--groups", path("groups.csv"), "--seeds",
                     "2", "--csv", path("out.csv"), "--json"});
  ASSERT_EQ(said.status, 0) << said.err << said.out;
  const TestJson document = TestJson::parse(said.out);
  ASSERT_EQ(document["groups"].size(), 6U);
  for (const TestJson& group : document["groups"]) {
    EXPECT_EQ(group["jobs"], 30);
    for (const char* way : {"default", "zeus", "harpe"}) {
      const double cost = group["cost_over_oracle"][way];
      EXPECT_GT(cost, 0.9) << group;
      EXPECT_LT(cost, 5) << group;
    }
  }
  const double harpe_mean = document["mean_cost_over_oracle"]["harpe"];
  EXPECT_LT(harpe_mean, document["mean_cost_over_oracle"]["zeus"].get<double>());
  EXPECT_THAT(read_file(path("out.csv")).value(),
              HasSubstr("synthetic-cifar100-1,cifar100,v100,2,30,"));
}

TEST_F(ReplayGroups, RefusesWhatItCannotReplay) {
  ASSERT_TRUE(write_file(path("groups.csv"),
                         "group,start_time,end_time,dataset,runtime_ratio\na,0,1,mnist,1\n")
                  .ok());
  const Said with_page = replay_groups(
      {"replay", "zeus", path(""), "--groups", path("groups.csv"), "--out", path("page.html")});
  EXPECT_EQ(with_page.status, 2);
  EXPECT_THAT(with_page.err, HasSubstr("--groups cannot be combined with"));
  EXPECT_EQ(replay_groups({"replay", "zeus", path(""), "--groups", path("nothing.csv")}).status, 2);
  const std::filesystem::path traces = measured_data() / "zeus" / "traces";
  if (!exists(traces)) GTEST_SKIP() << "Zeus's traces are not there (HARPE_SHARED)";
  const Said unknown =
      replay_groups({"replay", "zeus", traces.string(), "--groups", path("groups.csv")});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("'mnist'"));
}

}  // namespace
}  // namespace harpe::command
