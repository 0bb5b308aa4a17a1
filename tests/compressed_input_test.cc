// Every kind of input file may be compressed by gzip, with the same result.

#include <gmock/gmock.h>

#include <regex>

#include "command_run.h"
#include "harpe/command/input/gzip_testing.h"

namespace harpe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kProfile =
    "stage,instruction,frequency,time,energy\n"
    "0,forward,1410,0.05,20\n"
    "0,forward,1200,0.06,17\n"
    "0,backward,1410,0.10,40\n"
    "0,backward,1200,0.12,34\n"
    "1,forward,1410,0.04,16\n"
    "1,forward,1200,0.05,13\n"
    "1,backward,1410,0.08,32\n"
    "1,backward,1200,0.10,26\n";
constexpr const char* kSchedule = "0F0,0F1,0B0,,0B1\n,1F0,1B0,1F1,1B1\n";

class CompressedInput : public CommandTest {
 protected:
  /// Writes a file plain and, as NAME.gz, compressed.
  void write_both(const std::string& name, const std::string& content) const {
    write(name, content);
    compress(name, content);
  }
  std::string compress(const std::string& name, const std::string& content) const {
    return write(name + ".gz", command::gzipped(content));
  }

  /// Runs a command, in which "@NAME" is the file of that name, on plain files and on compressed
  /// ones. Expects that both succeed and print the same, except for the names of the files.
  void expect_the_same(const std::vector<std::string>& command) const {
    const Said plain = run(command, ""), compressed = run(command, ".gz");
    ASSERT_EQ(plain.status, 0) << plain.err;
    EXPECT_EQ(compressed.status, 0) << compressed.err;
    EXPECT_EQ(std::regex_replace(compressed.out, std::regex("\\.gz\\b"), ""), plain.out);
    EXPECT_EQ(std::regex_replace(compressed.err, std::regex("\\.gz\\b"), ""), plain.err);
  }

  Said run(const std::vector<std::string>& command, const std::string& ending) const {
    std::vector<std::string> words;
    for (const std::string& word : command) {
      const std::size_t at = word.find('@');
      words.push_back(
          at == std::string::npos ? word : word.substr(0, at) + path(word.substr(at + 1)) + ending);
    }
    return harpe_says(words);
  }

  Said plan(const std::string& profile, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"plan",     profile, "--micro-batches",  "2",
                                      "--points", "0",     "--blocking-power", "80"};
    words.insert(words.end(), more.begin(), more.end());
    return harpe_says(words);
  }
};

TEST_F(CompressedInput, OfAProfileGivesTheSamePlan) {
  write_both("p.csv", kProfile);
  expect_the_same({"plan", "--profile", "@p.csv", "--micro-batches", "2", "--blocking-power", "80",
                   "--points", "0", "--json"});
  expect_the_same({"plan", "@p.csv", "--micro-batches", "2", "--blocking-power", "80", "--points",
                   "0", "--json"});
  ASSERT_EQ(plan(path("p.csv"), {"--out", path("plain")}).status, 0);
  ASSERT_EQ(plan(path("p.csv.gz"), {"--out", path("compressed")}).status, 0);
  EXPECT_EQ(read("compressed/plan.json"), read("plain/plan.json"));
  // The report has the name without its suffix, and the digest of the file.
  EXPECT_THAT(read("compressed/report.html"),
              AllOf(HasSubstr("<title>p:"), HasSubstr("profile p.csv.gz")));
}

TEST_F(CompressedInput, OfAProfileCanBeCheckedAndCompared) {
  write_both("p.csv", kProfile);
  expect_the_same({"profile", "check", "@p.csv", "--blocking-power", "80", "--json"});
  expect_the_same({"compare", "--profile", "@p.csv", "--micro-batches", "2", "--blocking-power",
                   "80", "--schedules", "1f1b", "--policies", "one_clock", "--json"});
}

TEST_F(CompressedInput, OfAScheduleIsDrawnAndPlanned) {
  write_both("p.csv", kProfile);
  write_both("list.csv", kSchedule);
  expect_the_same({"schedule", "show", "@list.csv", "--json"});
  expect_the_same({"plan", "--profile", "@p.csv", "--schedule", "@list.csv", "--blocking-power",
                   "80", "--points", "0", "--json"});
}

TEST_F(CompressedInput, OfAPlanAndItsCertificateIsVerifiedAndPredicted) {
  write_both("p.csv", kProfile);
  ASSERT_EQ(plan(path("p.csv"), {"--certificate", "--out", path("out")}).status, 0);
  for (const char* name : {"out/plan.json", "out/certificate.json"}) compress(name, read(name));
  expect_the_same({"verify", "@out/plan.json", "--profile", "@p.csv", "--certificate",
                   "@out/certificate.json", "--json"});
  expect_the_same({"predict", "@out/plan.json", "--profile", "@p.csv", "--json"});
  // A folder that contains only the compressed plan.
  const std::string before = harpe_says({"verify", path("out"), "--profile", path("p.csv")}).out;
  std::filesystem::remove(path("out/plan.json"));
  EXPECT_EQ(harpe_says({"verify", path("out"), "--profile", path("p.csv")}).out, before);
}

TEST_F(CompressedInput, OfALatencyTableIsReadAndIsFoundBesideAProfile) {
  write_both("p.csv", kProfile);
  write_both("late.csv", "frequency,latency\n1200,0.01\n1410,0.02\n");
  expect_the_same({"plan", "--profile", "@p.csv", "--micro-batches", "2", "--blocking-power", "80",
                   "--switch-latency", "@late.csv", "--points", "0", "--json"});
  compress("p.latency.csv", read("late.csv"));
  for (const char* profile : {"p.csv", "p.csv.gz"}) {
    EXPECT_THAT(plan(path(profile), {}).out, HasSubstr("p.latency.csv.gz")) << profile;
  }
}

TEST_F(CompressedInput, OfCarbonIntensitiesAndAFrontierIsSimulated) {
  std::string series = "Time,Carbon Intensity\n";
  for (int day = 1; day <= 8; ++day) {
    for (int hour = 0; hour < 24; ++hour) {
      series += "2022-01-0" + std::to_string(day) + "T" + (hour < 10 ? "0" : "") +
                std::to_string(hour) + ":00:00Z," + std::to_string(hour < 12 ? 300 : 100) + "\n";
    }
  }
  write_both("ci.csv", series);
  write_both("frontier.json", R"({"format": "harpe.frontier/1", "points": [
      {"iteration_time_s": 1.0, "iteration_energy_j": 300},
      {"iteration_time_s": 1.3, "iteration_energy_j": 240}]})");
  expect_the_same({"carbon", "simulate", "--series", "@ci.csv", "--frontier", "@frontier.json",
                   "--hours", "6", "--deadline-factor", "1.5", "--starts", "3", "--json"});
  expect_the_same(
      {"carbon", "history", "file:@ci.csv", "--from", "2022-01-02", "--to", "2022-01-03"});
}

TEST_F(CompressedInput, OfARecordedRunIsReplayed) {
  write_both("run.csv",
             "start_time,window_name,elapsed_time,gpu0_energy\n"
             "1,__GlobalPowerLimitOptimizer_300,10,2800\n"
             "2,__GlobalPowerLimitOptimizer_250,10.5,2500\n"
             "3,__GlobalPowerLimitOptimizer_200,12,2300\n");
  expect_the_same({"replay", "power-limit", "@run.csv", "--json"});
}

TEST_F(CompressedInput, ThatIsDamagedEndsInOneLineWithItsName) {
  const std::string whole = command::gzipped(kProfile);
  write("p.csv.gz", whole.substr(0, whole.size() / 2));
  const Said said = plan(path("p.csv.gz"), {"--out", path("out")});
  EXPECT_EQ(said.status, 2);
  EXPECT_THAT(said.out, IsEmpty());
  EXPECT_EQ(said.err, "error: " + path("p.csv.gz") +
                          ": ends early: its gzip data are not complete; copy it again\n");
  EXPECT_THAT(listing("out"), IsEmpty());
}

TEST_F(CompressedInput, ByAnotherProgramIsRefusedWithTheCommandThatHelps) {
  write("p.csv.zst", "\x28\xb5\x2f\xfd");
  EXPECT_THAT(plan(path("p.csv.zst"), {}).err, HasSubstr("(unzstd -k p.csv.zst)"));
}

}  // namespace
}  // namespace harpe
