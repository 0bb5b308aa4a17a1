// Bad input gives one clear message with file, line and column, and status 2; no file is written.

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>

#include "command_run.h"

namespace harpe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kHead = "stage,instruction,frequency,time,energy\n";
constexpr const char* kGood =
    "stage,instruction,frequency,time,energy\n"
    "0,forward,1410,0.05,20\n"
    "0,forward,1200,0.06,17\n"
    "0,backward,1410,0.10,40\n"
    "0,backward,1200,0.12,34\n"
    "1,forward,1410,0.04,16\n"
    "1,backward,1410,0.08,32\n";

class BadInput : public CommandTest {
 protected:
  /// Plans 4 micro-batches of 1F1B.
  Said plan(const std::string& profile, std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--micro-batches", "4"});
    return plan_without_sizes(profile, std::move(more));
  }
  Said plan_without_sizes(const std::string& profile, std::vector<std::string> more) const {
    more.insert(more.begin(), {"plan", "--profile", write("p.csv", profile), "--blocking-power",
                               "80", "--points", "0", "--out", path("out")});
    return harpe_says(more);
  }
  Said plan_list(const std::string& csv) const {
    return plan_without_sizes(kGood, {"--schedule", list(csv)});
  }
  std::string list(const std::string& csv) const { return write("list.csv", csv); }

  void expect_refused(const Said& said, const testing::Matcher<const std::string&>& message) const {
    EXPECT_EQ(said.status, 2);
    EXPECT_THAT(said.out, IsEmpty());
    EXPECT_THAT(said.err, message);
    EXPECT_THAT(listing("out"), IsEmpty());
  }
};

TEST_F(BadInput, TheGoodProfileOfTheseTestsIsPlanned) {
  const Said said = plan(kGood);
  EXPECT_EQ(said.status, 0) << said.err;
}

TEST_F(BadInput, ByteOrderMarkAndWindowsLineEndsAreAccepted) {
  std::string text = "\xef\xbb\xbf";
  for (const char* c = kGood; *c != '\0'; ++c)
    text += *c == '\n' ? std::string("\r\n") : std::string(1, *c);
  EXPECT_EQ(plan(text).status, 0);
}

TEST_F(BadInput, MissingColumn) {
  expect_refused(plan("stage,instruction,frequency,time\n0,forward,1410,0.05\n"),
                 AllOf(HasSubstr("p.csv:1:"), HasSubstr("energy")));
}

struct BadRow {
  const char* name;
  const char* row;
  const char* at;       ///< "line:column" of the error
  const char* mention;  ///< text that the message contains
};

class BadRowOfAProfile : public BadInput, public testing::WithParamInterface<BadRow> {};

TEST_P(BadRowOfAProfile, IsNamedWithLineAndColumn) {
  const BadRow& bad = GetParam();
  const Said said = plan(std::string(kGood) + bad.row);
  expect_refused(said,
                 AllOf(HasSubstr(std::string("p.csv:") + bad.at + ":"), HasSubstr(bad.mention)));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadRowOfAProfile,
    testing::Values(BadRow{"WrongNumber", "1,forward,1200,fast,16\n", "8:16", "time"},
                    BadRow{"MissingNumber", "1,forward,1200,,16\n", "8:16", "time"},
                    BadRow{"MissingCell", "1,forward,1200,0.05\n", "8:20", "cells"},
                    BadRow{"TrailingCharacters", "1,forward,1200,0.05s,16\n", "8:16", "0.05s"},
                    BadRow{"NegativeTime", "1,forward,1200,-0.05,16\n", "8:16", "time"},
                    BadRow{"ZeroTime", "1,forward,1200,0,16\n", "8:16", "time"},
                    BadRow{"NotANumber", "1,forward,1200,NaN,16\n", "8:16", "time"},
                    BadRow{"Infinity", "1,forward,1200,0.05,inf\n", "8:21", "energy"},
                    BadRow{"UnknownInstruction", "1,forwards,1200,0.05,16\n", "8:3", "forward"},
                    BadRow{"SameRowTwice", "1,forward,1410,0.04,16\n", "8:1", "line 6"},
                    BadRow{"ClockOfZero", "1,forward,0,0.05,16\n", "8:11", "clock"},
                    BadRow{"NegativeStage", "-1,forward,1200,0.05,16\n", "8:1", "stage"},
                    BadRow{"BrokenQuote", "1,\"forward,1200,0.05,16\n", "8:3", "quote"}),
    [](const auto& instance) { return instance.param.name; });

TEST_F(BadInput, AllErrorsComeAtOnce) {
  const Said said = plan(std::string(kGood) + "1,forwards,1200,0.05,16\n1,forward,1200,0,x\n",
                         {"--schedule", list("0F0,0Q0\n")});
  expect_refused(said, AllOf(HasSubstr("p.csv:8:3:"), HasSubstr("p.csv:9:16:"),
                             HasSubstr("p.csv:9:18:"), HasSubstr("list.csv:1:6:")));
}

TEST_F(BadInput, StagesThatTheProfileLacksAreOneErrorWhateverElseIsMissing) {
  const std::string error =
      "error: " + path("p.csv") + ": has 2 stages, fewer than the 8 of the schedule\n";
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{},
        {"--schedule", "zb-h1"},
        {"--load", "1,2,3"},
        {"--schedule", "looped-bfs", "--chunk-split", "none"}}) {
    std::vector<std::string> options = {"--stages", "8"};
    options.insert(options.end(), more.begin(), more.end());
    const Said said = plan(kGood, options);
    expect_refused(said, HasSubstr(error));
    EXPECT_EQ(said.err, error);
  }
}

TEST_F(BadInput, RowsThatTheProfileLacksAreNamedTogether) {
  expect_refused(
      plan(kGood, {"--schedule", "zb-h1"}),
      AllOf(HasSubstr("no weight rows for stages 0, 1, which the schedule needs"),
            HasSubstr("measure the input gradient as backward, the weight gradient as weight")));
  // The chunks that lack rows.
  const std::string chunks =
      "stage,chunk,instruction,frequency,time,energy\n"
      "0,0,forward,1410,0.05,20\n0,0,backward,1410,0.1,40\n0,1,forward,1410,0.05,20\n"
      "1,0,forward,1410,0.05,20\n1,0,backward,1410,0.1,40\n1,1,forward,1410,0.05,20\n";
  expect_refused(plan(chunks, {"--schedule", "looped-bfs"}),
                 HasSubstr("no backward rows for chunk 1 of stages 0, 1, which"));
}

TEST_F(BadInput, StagesThatTheScheduleLeavesOutAreNamedBeforeAnythingElse) {
  const std::string warning =
      "warning: the profile has 2 stages, of which the schedule uses 1: the work of the others is "
      "left out\n";
  for (const std::vector<std::string>& more : {std::vector<std::string>{},
                                               {"--schedule", "zb-h1"},
                                               {"--load", "1,2,3"},
                                               {"--transfer-forward", "1"},
                                               {"--chunks", "2"},
                                               {"--deadline", "0.1"},
                                               {"--power-cap", "1"}}) {
    std::vector<std::string> options = {"--stages", "1"};
    options.insert(options.end(), more.begin(), more.end());
    EXPECT_THAT(plan(kGood, options).err, StartsWith(warning));
  }
}

TEST_F(BadInput, AScheduleThatWaitsForItself) {
  // Stage 1 runs the backward of its first micro-batch before the forward that it needs.
  expect_refused(plan_list("0F0,0B0\n1B0,1F0\n"), AllOf(HasSubstr("list.csv"), HasSubstr("cycle")));
}

TEST_F(BadInput, AnInstructionTwiceOrNever) {
  expect_refused(plan_list("0F0,0F0,0B0\n1F0,1B0\n"), HasSubstr("list.csv"));
  expect_refused(plan_list("0F0,0B0\n1F0\n"), HasSubstr("list.csv"));
}

TEST_F(BadInput, AnUnknownSchedule) {
  expect_refused(plan(kGood, {"--schedule", "1f1c"}), HasSubstr("1f1b"));
  expect_refused(plan(kGood, {"--schedule", path("missing.csv")}), HasSubstr("missing.csv"));
  const std::string no_name(5000, 'x');
  expect_refused(plan(kGood, {"--schedule", no_name}), HasSubstr("xxx"));
  expect_refused(harpe_says({"schedule", "show", no_name}), HasSubstr("xxx"));
  expect_refused(harpe_says({"plan", "--profile", path("p.csv"), "--micro-batches", "4", "--points",
                             "0", "--out", path(no_name)}),
                 HasSubstr("xxx"));
}

TEST_F(BadInput, ADeadlineThatNoClocksMeetSaysWhatIsPossible) {
  const Said possible = harpe_says({"plan", "--profile", write("p.csv", kGood), "--micro-batches",
                                    "4", "--blocking-power", "80"});
  EXPECT_EQ(possible.status, 0);
  // With all clocks at their fastest, the iteration ends at 0.69 s.
  expect_refused(plan(kGood, {"--deadline", "0.1"}), HasSubstr("0.69"));
}

TEST_F(BadInput, APowerCapThatNoClocksMeet) {
  expect_refused(plan(kGood, {"--power-cap", "1"}), HasSubstr("W"));
}

TEST_F(BadInput, NumbersBeyondTheSolversRange) {
  expect_refused(plan("stage,instruction,frequency,time,energy\n0,forward,1410,1e200,20\n"
                      "0,backward,1410,0.1,40\n"),
                 MatchesRegex("(.|\n)*(range|too (large|long)|beyond|at most)(.|\n)*"));
  expect_refused(plan("stage,instruction,frequency,time,energy\n0,forward,1410,0.1,1e200\n"
                      "0,backward,1410,0.1,40\n"),
                 MatchesRegex("(.|\n)*(range|too (large|long)|beyond|at most)(.|\n)*"));
}

TEST_F(BadInput, EmptyTruncatedAndMissingFiles) {
  expect_refused(plan(""), HasSubstr("p.csv"));
  expect_refused(plan(kHead), HasSubstr("p.csv"));
  const std::string good = kGood;
  expect_refused(plan(good.substr(0, good.size() - 4)), HasSubstr("p.csv:7:"));
  const std::vector<std::string> arguments = {
      "plan", "--profile", path("none.csv"), "--micro-batches", "4", "--out", path("out")};
  expect_refused(harpe_says(arguments), HasSubstr("none.csv"));
  expect_refused(harpe_says({"plan", path("none.toml")}), HasSubstr("none.toml"));
  expect_refused(harpe_says({"plan", "--profile", path("."), "--micro-batches", "4"}),
                 HasSubstr("error:"));
}

TEST_F(BadInput, OptionsThatDoNotFitThePipeline) {
  expect_refused(plan(kGood, {"--transfer-forward", "1ms,2ms,3ms", "--load", "1,2,3"}),
                 AllOf(HasSubstr("--transfer-forward has 3 values, the pipeline has 1"),
                       HasSubstr("--load has 3 values, the pipeline has 2 stages")));
  expect_refused(plan(kGood, {"--schedule", list("0F0,0B0\n1F0,1B0\n")}),
                 AllOf(HasSubstr("list.csv"), HasSubstr("4 were requested")));
}

TEST_F(BadInput, ADirectoryThatCannotBeWritten) {
  write("file", "");
  const std::vector<std::string> more = {"--out", path("file/out")};
  std::vector<std::string> arguments = {"plan",
                                        "--profile",
                                        write("p.csv", kGood),
                                        "--micro-batches",
                                        "4",
                                        "--blocking-power",
                                        "80",
                                        "--points",
                                        "0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Said said = harpe_says(arguments);
  EXPECT_EQ(said.status, 2);
  EXPECT_THAT(said.out, IsEmpty());
  EXPECT_THAT(said.err, HasSubstr(path("file/out")));
}

/// Limits the size of files during its lifetime, so that a program sees a full disk.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST_F(BadInput, AFullDiskLeavesNothingBehind) {
  write("p.csv", kGood);
  for (const rlim_t bytes : {rlim_t{0}, rlim_t{1000}, rlim_t{4000}, rlim_t{16000}}) {
    Said said;
    {
      const SmallDisk disk(bytes);
      said = harpe_says({"plan", "--profile", path("p.csv"), "--micro-batches", "4",
                         "--blocking-power", "80", "--points", "0", "--out", path("out")});
    }
    // If a small file fits on the disk, the plan is made and the summary is not lost.
    constexpr rlim_t kProbed = 4096;
    if (bytes < kProbed) expect_refused(said, HasSubstr(path("out")));
    EXPECT_EQ(said.status, 2);
    EXPECT_THAT(said.err, HasSubstr(path("out")));
    EXPECT_THAT(listing("out"), IsEmpty());
  }
}

TEST_F(BadInput, AFullDiskKeepsTheFilesOfAnEarlierRun) {
  ASSERT_EQ(plan(kGood).status, 0);
  const std::string before = read("out/report.html");
  ASSERT_THAT(before, Not(IsEmpty()));
  {
    const SmallDisk disk(100);
    EXPECT_EQ(harpe_says({"plan", "--profile", path("p.csv"), "--micro-batches", "5", "--out",
                          path("out")})
                  .status,
              2);
  }
  EXPECT_EQ(read("out/report.html"), before);
}

TEST_F(BadInput, EveryReaderNamesItsFile) {
  const std::string profile = write("p.csv", kGood);
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[1, 2"),
        std::string("{\"format\": \"harpe.plan/1\"}"), std::string(1, '\0')}) {
    const std::string file = write("bad.json", text);
    expect_refused(harpe_says({"verify", file, "--profile", profile}), HasSubstr("bad.json"));
    expect_refused(harpe_says({"predict", file, "--profile", profile}), HasSubstr("bad.json"));
    expect_refused(harpe_says({"schedule", "show", file}), HasSubstr("bad.json"));
    expect_refused(harpe_says({"profile", "check", file}), HasSubstr("bad.json"));
  }
}

}  // namespace
}  // namespace harpe
