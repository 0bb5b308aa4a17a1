// `harpe replay zeus` as a user meets it, over small traces that the test writes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "harpe/base/file.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/base/text.h"
#include "harpe/command/command/said_testing.h"
#include "harpe/command/input/gzip_testing.h"
#include "harpe/command/lab_cli/lab_cli.h"
#include "harpe/command/lab_cli/zeus_runs.h"
#include "harpe/lab/replay/traced_job.h"
#include "harpe/zeus/batch_size/pay_back.h"

namespace harpe::command {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using TestJson = nlohmann::json;

class ReplayZeus : public ::testing::Test {
 protected:
  // Writes two runs and three limits for each default size and for half of it.
  void SetUp() override {
    std::string train = "dataset,network,batch_size,optimizer,target_metric,target_epoch\n";
    for (const lab::TracedDataset& dataset : lab::traced_datasets()) {
      for (const int size : sizes_of(dataset)) {
        for (const char* epochs : {"3", "4"}) {
          train += key(dataset, size) + "," + std::to_string(dataset.target) + "," + epochs + "\n";
        }
      }
    }
    write("summary_train.csv", train);
    for (const char* gpu : {"v100", "a40"}) {
      std::string power =
          "dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power\n";
      for (const lab::TracedDataset& dataset : lab::traced_datasets()) {
        for (const int size : sizes_of(dataset)) {
          for (const int limit : {150, 200, 250}) {
            const double seconds = 50 + 1000 * std::exp(-limit / 50.0) + 10.0 / size;
            power += key(dataset, size) + "," + std::to_string(limit) + "," +
                     std::to_string(seconds) + "," + std::to_string(std::min(limit, 220)) + "\n";
          }
        }
      }
      write(std::string("summary_power_") + gpu + ".csv", power);
    }
  }

  Said replay(std::vector<std::string> options) const {
    options.insert(options.begin(), {"replay", "zeus", directory_.path().string()});
    return harpe_with(add_replay_command, options);
  }
  std::string path_of(const std::string& name) const { return (directory_.path() / name).string(); }

 private:
  static std::set<int> sizes_of(const lab::TracedDataset& dataset) {
    return {dataset.default_v100, dataset.default_a40, dataset.default_v100 / 2};
  }
  static std::string key(const lab::TracedDataset& dataset, int size) {
    return std::string(dataset.name) + "," + dataset.network + "," + std::to_string(size) + "," +
           dataset.optimizer;
  }
  void write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(write_file(path_of(name), text).ok());
  }

  TestDirectory directory_;
};

TEST_F(ReplayZeus, SaysFirstHowFarEachIsFromTheOracle) {
  const TestJson means =
      TestJson::parse(replay({"--seeds", "2", "--json"}).out)["mean_cost_over_oracle"];
  const auto beyond = [&means](const char* way) {
    const double percent = 100 * (means[way].get<double>() - 1);
    return grouped(std::abs(percent), std::abs(percent) < 100 ? 1 : 0) +
           (percent < 0 ? " % less" : " % more");
  };
  EXPECT_THAT(replay({"--seeds", "2"}).out,
              StartsWith("Harpe pays " + beyond("harpe") +
                         " than an oracle that knows the best choice from the start; Zeus pays " +
                         beyond("zeus") + " (mean of "));
}

TEST_F(ReplayZeus, OfOneGpuAndEtaHasItsDatasetsAtTheTop) {
  const Said heard = replay({"--gpu", "v100", "--seeds", "2", "--json"});
  ASSERT_EQ(heard.status, 0) << heard.err;
  const TestJson document = TestJson::parse(heard.out);
  EXPECT_EQ(document["gpu"], "v100");
  EXPECT_EQ(document["eta"], 0.5);
  EXPECT_EQ(document["seeds"], 2);
  ASSERT_EQ(document["datasets"].size(), lab::traced_datasets().size());
  for (const TestJson& one : document["datasets"]) {
    EXPECT_TRUE(one["dataset"].is_string());
    EXPECT_TRUE(one["settles_on"]["zeus"][0]["batch_size"].is_number());
    EXPECT_TRUE(one["settles_on"]["harpe"][0]["power_limit_w"].is_number());
    for (const char* way : {"default", "grid", "zeus", "harpe"}) {
      EXPECT_GT(one["cost_over_oracle"][way].get<double>(), 0.5) << way;
    }
  }
  EXPECT_FALSE(document.contains("runs"));
}

TEST_F(ReplayZeus, OfSeveralHasOneSuchDocumentForEach) {
  const std::string csv = path_of("seeds.csv"), page = path_of("page.html");
  const Said heard = replay(
      {"--gpu", "v100,a40", "--eta", "0,1", "--seeds", "2", "--csv", csv, "--out", page, "--json"});
  ASSERT_EQ(heard.status, 0) << heard.err;
  const TestJson document = TestJson::parse(heard.out);
  ASSERT_EQ(document["runs"].size(), 4U);
  EXPECT_EQ(document["runs"][1]["gpu"], "v100");
  EXPECT_EQ(document["runs"][1]["eta"], 1);
  EXPECT_EQ(document["runs"][2]["gpu"], "a40");
  EXPECT_EQ(document["runs"][2]["eta"], 0);
  const TestJson alone =
      TestJson::parse(replay({"--gpu", "a40", "--eta", "0", "--seeds", "2", "--json"}).out);
  EXPECT_EQ(document["runs"][2], alone);

  const std::string lines = read_file(csv).value();
  EXPECT_EQ(std::ranges::count(lines, '\n'), 1 + 4 * 6 * 2);
  EXPECT_THAT(lines, HasSubstr("squad,a40,1,2,"));
  const std::string html = read_file(page).value();
  EXPECT_THAT(html, HasSubstr("<p class=\"headline long\">Harpe pays "));
  EXPECT_THAT(html, HasSubstr("squad, v100, eta 0"));
  EXPECT_THAT(html, HasSubstr("squad, a40, eta 1"));
}

TEST_F(ReplayZeus, ShowsATableForEachAndTheirMeans) {
  const Said several = replay({"--gpu", "a40,v100", "--seeds", "1"});
  ASSERT_EQ(several.status, 0) << several.err;
  EXPECT_THAT(several.out, HasSubstr("a40, eta 0.5\n"));
  EXPECT_THAT(several.out, HasSubstr("\nv100, eta 0.5\n"));
  EXPECT_THAT(several.out, HasSubstr("\nmeans "));
  const Said one = replay({"--gpu", "a40", "--seeds", "1"});
  EXPECT_THAT(one.out, Not(HasSubstr("eta")));
  EXPECT_THAT(several.out, HasSubstr(one.out));
}

TEST_F(ReplayZeus, ReadsTracesCompressedByGzip) {
  const Said plain = replay({"--seeds", "2", "--json"});
  ASSERT_EQ(plain.status, 0) << plain.err;
  for (const char* name : {"summary_train.csv", "summary_power_v100.csv"}) {
    const std::string text = read_file(path_of(name)).value();
    ASSERT_TRUE(write_file(path_of(name) + ".gz", gzipped(text)).ok());
    std::filesystem::remove(path_of(name));
  }
  const std::string page = path_of("page.html");
  const Said compressed = replay({"--seeds", "2", "--json", "--out", page});
  ASSERT_EQ(compressed.status, 0) << compressed.err;
  EXPECT_EQ(TestJson::parse(compressed.out)["mean_cost_over_oracle"],
            TestJson::parse(plain.out)["mean_cost_over_oracle"]);
  EXPECT_THAT(read_file(page).value(), HasSubstr("summary_power_v100.csv.gz"));
}

TEST_F(ReplayZeus, AllAreTheGpusOfTheTraces) {
  const Said heard = replay({"--gpu", "all", "--seeds", "1"});
  EXPECT_EQ(heard.status, 2);
  EXPECT_THAT(heard.err, HasSubstr("summary_power_p100.csv")) << "which is not there";
}

TEST_F(ReplayZeus, OfEveryTargetHasARowForEachThatTheDefaultReaches) {
  // A harder target, which is reached with half of the default size only, and an easier target.
  std::string train = read_file(path_of("summary_train.csv")).value();
  train +=
      "squad,bert_base_uncased,32,adamw,83,2\n"
      "squad,bert_base_uncased,16,adamw,83,2\n"
      "squad,bert_base_uncased,32,adamw,85,\n"
      "squad,bert_base_uncased,16,adamw,85,5\n";
  ASSERT_TRUE(write_file(path_of("summary_train.csv"), train).ok());
  const std::string csv = path_of("seeds.csv");
  const Said heard = replay({"--targets", "--seeds", "2", "--csv", csv, "--json"});
  ASSERT_EQ(heard.status, 0) << heard.err;
  const TestJson document = TestJson::parse(heard.out);
  std::vector<double> squad;
  for (const TestJson& one : document["datasets"]) {
    if (one["dataset"] == "squad") squad.push_back(one["target"].get<double>());
  }
  EXPECT_THAT(squad, ElementsAre(83, 84));
  EXPECT_EQ(document["datasets"].size(), lab::traced_datasets().size() + 1);
  EXPECT_THAT(read_file(csv).value(), StartsWith("dataset,target,gpu,eta,seed,"));
  EXPECT_THAT(document["targets_left_out"], ElementsAre("squad 85"));
  const std::string text = replay({"--targets", "--seeds", "1"}).out;
  EXPECT_THAT(text, HasSubstr("\nsquad 83 "));
  EXPECT_THAT(text, HasSubstr("the default batch size does not always reach it: squad 85.\n"));
}

TEST_F(ReplayZeus, TellsHarpeTheHorizonThatIsAskedFor) {
  const auto datasets = [&](const char* horizon) {
    return TestJson::parse(
        replay({"--seeds", "2", "--horizon", horizon, "--json"}).out)["datasets"];
  };
  const TestJson unknown = TestJson::parse(replay({"--seeds", "2", "--json"}).out)["datasets"];
  EXPECT_EQ(datasets("unknown"), unknown);
  EXPECT_NE(datasets("1"), unknown) << "nothing pays back in one recurrence";
  ASSERT_EQ(unknown[0]["recurrences"], 2 * 2 * 3);
  EXPECT_EQ(datasets("known"), datasets("12"));
  EXPECT_THAT(replay({"--horizon", "0"}).err, HasSubstr("unknown, known or a number"));
}

TEST_F(ReplayZeus, PrintsTheRestWhereZeusPrunesEverySize) {
  // The runs of the default differ so much that its second run may be stopped at its cost bound.
  std::string train = read_file(path_of("summary_train.csv")).value();
  for (const char* epochs : {"1", "1", "90"}) {
    train += std::string("cifar100,shufflenetv2,1024,adadelta,0.5,") + epochs + "\n";
  }
  ASSERT_TRUE(write_file(path_of("summary_train.csv"), train).ok());
  const std::string csv = path_of("seeds.csv");
  const Said heard = replay({"--targets", "--seeds", "20", "--csv", csv, "--json"});
  ASSERT_EQ(heard.status, 0) << heard.err;
  const TestJson row = TestJson::parse(heard.out)["datasets"][0];
  ASSERT_EQ(row["target"], 0.5);
  EXPECT_LT(row["zeus_seeds"], 20);
  EXPECT_GT(row["cost_over_oracle"]["harpe"], 0);
  EXPECT_THAT(read_file(csv).value(),
              ContainsRegex("cifar100,0.5,v100,0.5,[0-9]+,[0-9.]+,[0-9.]+,,"));
}

TEST_F(ReplayZeus, RefusesBadInput) {
  EXPECT_EQ(replay({"--gpu", "h100"}).status, 2);
  EXPECT_EQ(replay({"--gpu", "v100,"}).status, 2);
  EXPECT_THAT(replay({"--gpu", "v100,a40,v100"}).err, HasSubstr("twice"));
  EXPECT_EQ(replay({"--eta", "0.5,1.5"}).status, 2);
  EXPECT_THAT(replay({"--eta", "0.5,0.50"}).err, HasSubstr("twice"));
  EXPECT_EQ(replay({"--seeds", "0"}).status, 2);
  const Said heard = replay({"--gpu", "v100,a40", "--eta", "0,0.5,1", "--seeds", "10000"});
  EXPECT_EQ(heard.status, 2);
  EXPECT_THAT(heard.err, HasSubstr("at most 6666 seeds for 36 jobs"));
}

TEST_F(ReplayZeus, BelievesBeforehandWhatAServerDoesOrWhatIsAsked) {
  const auto seeds_with = [&](const std::vector<std::string>& options) {
    std::vector<std::string> all{"--seeds", "3", "--csv", path_of("seeds.csv")};
    all.insert(all.end(), options.begin(), options.end());
    EXPECT_EQ(replay(all).status, 0);
    return read_file(path_of("seeds.csv")).value();
  };
  EXPECT_EQ(seeds_with({"--prior", "doubt=" + shortest(zeus::PayBackPrior{}.doubt)}),
            seeds_with({}));
  // A size that is unlikely to converge is not tried.
  EXPECT_NE(seeds_with({"--prior", "failure=0.9,doubt=1"}), seeds_with({}));
  EXPECT_THAT(replay({"--prior", "luck=1"}).err, HasSubstr("luck=1"));
  EXPECT_THAT(replay({"--prior", "failure=-1"}).err, HasSubstr("a number above 0"));
}

TEST(Traces, NamesTheFileThatIsNotThere) {
  const auto traces = read_traces("/nowhere", "v100");
  ASSERT_FALSE(traces.ok());
  EXPECT_THAT(traces.error().text(), HasSubstr("summary_train.csv"));
}

}  // namespace
}  // namespace harpe::command
