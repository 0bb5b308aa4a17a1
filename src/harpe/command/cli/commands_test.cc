// The command line as a user meets it: help, errors, pages, small commands.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harpe/command/cli/cli.h"

namespace harpe::command {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

struct Said {
  int status = 0;
  std::string out, err;
};

Said harpe(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  const int status = run_harpe(arguments, console);
  return {.status = status, .out = out.str(), .err = err.str()};
}

const std::vector<std::vector<std::string>> kCommands = {{},
                                                         {"plan"},
                                                         {"schedule"},
                                                         {"schedule", "show"},
                                                         {"schedule", "convert"},
                                                         {"verify"},
                                                         {"profile"},
                                                         {"profile", "check"},
                                                         {"predict"},
                                                         {"synth"},
                                                         {"agent"},
                                                         {"agent", "token"},
                                                         {"agent", "token", "issue"},
                                                         {"clock"},
                                                         {"clock", "set"},
                                                         {"clock", "reset"},
                                                         {"limit"},
                                                         {"limit", "set"},
                                                         {"limit", "reset"},
                                                         {"carbon", "report"},
                                                         {"run"},
                                                         {"demo"},
                                                         {"demo", "carbon"},
                                                         {"devices"},
                                                         {"completion"},
                                                         {"man"}};

TEST(Commands, EveryCommandHasHelpOfAtMost80ColumnsWithExamples) {
  for (std::vector<std::string> command : kCommands) {
    command.emplace_back("--help");
    const Said said = harpe(command);
    EXPECT_EQ(said.status, 0);
    EXPECT_THAT(said.out,
                AllOf(StartsWith("harpe"), HasSubstr("Usage: harpe"), HasSubstr("\nExamples:\n")));
    std::istringstream lines(said.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80) << line;
  }
}

TEST(Commands, HelpIsACommandToo) {
  EXPECT_EQ(harpe({"help", "schedule", "show"}).out, harpe({"schedule", "show", "--help"}).out);
  EXPECT_EQ(harpe({"help"}).out, harpe({"--help"}).out);
}

TEST(Commands, EveryCommandHasAManualPageOfTheSameOptions) {
  for (const std::vector<std::string>& command : kCommands) {
    std::vector<std::string> page = command;
    page.insert(page.begin(), "man");
    const Said said = harpe(page);
    EXPECT_EQ(said.status, 0);
    EXPECT_THAT(said.out,
                AllOf(StartsWith(".TH"), HasSubstr(".SH NAME"), HasSubstr(".SH EXAMPLES")));
  }
  EXPECT_THAT(harpe({"man", "plan"}).out, HasSubstr("\\-\\-blocking\\-power WATTS"));
  EXPECT_EQ(harpe({"man", "plam"}).status, 2);
}

TEST(Commands, VersionIsPrinted) {
  EXPECT_THAT(harpe({"--version"}).out, testing::MatchesRegex("harpe [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(Commands, WithoutASubcommandHelpGoesToStandardError) {
  const Said said = harpe({});
  EXPECT_EQ(said.status, 2);
  EXPECT_THAT(said.out, IsEmpty());
  EXPECT_THAT(said.err, HasSubstr("Commands:"));
  EXPECT_EQ(harpe({"schedule"}).status, 2);
}

TEST(Commands, UnknownWordsNameTheNearest) {
  const Said option = harpe({"plan", "--profil", "p.csv"});
  EXPECT_EQ(option.status, 2);
  EXPECT_THAT(option.err, HasSubstr("has no option '--profil'; did you mean '--profile'?"));
  EXPECT_THAT(harpe({"plan", "--dealine=3"}).err, HasSubstr("did you mean '--deadline'?"));
  EXPECT_THAT(harpe({"plam"}).err, HasSubstr("has no subcommand 'plam'; did you mean 'plan'?"));
  EXPECT_THAT(harpe({"measure"}).err, HasSubstr("did you mean 'profile', 'run' or"));
  EXPECT_THAT(harpe({"schedule", "shwo"}).err, HasSubstr("did you mean 'show'?"));
  EXPECT_EQ(harpe({"synth", "surplus"}).status, 2);
}

TEST(Commands, ErrorsAreJsonWhereJsonIsAskedFor) {
  const Said said = harpe({"plan", "--json", "--stages", "0", "--deadline", "soon"});
  EXPECT_EQ(said.status, 2);
  EXPECT_THAT(said.err, IsEmpty());
  const auto document = nlohmann::json::parse(said.out);
  EXPECT_EQ(document["error"]["code"], "invalid_input");
  const auto& errors = document["error"]["diagnostics"];
  ASSERT_EQ(errors.size(), 4) << said.out;  // both values, and the missing options
  EXPECT_THAT(errors[0]["message"].get<std::string>(), HasSubstr("--stages: expected"));
  EXPECT_TRUE(errors[0]["line"].is_null());
  EXPECT_EQ(nlohmann::json::parse(harpe({"verify", "--json"}).out)["error"]["code"],
            "invalid_input");
  EXPECT_EQ(nlohmann::json::parse(harpe({"synth", "--jsn", "--json"}).out)["error"]["code"],
            "invalid_input");
}

TEST(Commands, ValuesOfOptionsAreChecked) {
  EXPECT_THAT(harpe({"synth", "--stages", "x"}).err, HasSubstr("--stages"));
  EXPECT_THAT(harpe({"synth", "--gpu", "a100-smx"}).err, HasSubstr("a100-sxm"));
  EXPECT_THAT(harpe({"schedule", "show", "1f1"}).err, HasSubstr("1f1b"));
  EXPECT_THAT(harpe({"completion", "tcsh"}).err, HasSubstr("bash, zsh or fish"));
  for (const Said& said : {harpe({"synth", "--stages", "x"}), harpe({"schedule", "show", "1f1"}),
                           harpe({"completion", "tcsh"}), harpe({"plan", "--points"})}) {
    EXPECT_EQ(said.status, 2);
    EXPECT_THAT(said.out, IsEmpty());
  }
}

TEST(Commands, CompletionsKnowCommandsOptionsAndValues) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Said said = harpe({"completion", shell});
    EXPECT_EQ(said.status, 0);
    EXPECT_THAT(said.out, AllOf(HasSubstr("convert"), HasSubstr("blocking-power"),
                                HasSubstr("rendezvous"), HasSubstr("a100-sxm"), HasSubstr("1f1b")))
        << shell;
  }
}

TEST(Commands, ASynthesizedProfileIsReproducibleAndChecks) {
  const Said csv = harpe({"synth", "--stages", "2", "--seed", "7"});
  EXPECT_EQ(csv.status, 0);
  EXPECT_THAT(csv.out, AllOf(StartsWith("# Synthetic"), HasSubstr("stage,instruction,frequency")));
  EXPECT_EQ(csv.out, harpe({"synth", "--stages", "2", "--seed", "7"}).out);
  EXPECT_NE(csv.out, harpe({"synth", "--stages", "2", "--seed", "8"}).out);

  const auto file = std::filesystem::path(testing::TempDir()) /
                    ("harpe_profile_" + std::to_string(::getpid()) + ".csv");
  std::ofstream(file) << csv.out;
  const Said check = harpe({"profile", "check", file.string(), "--blocking-power", "83.64"});
  EXPECT_EQ(check.status, 0);
  EXPECT_THAT(check.out, AllOf(HasSubstr("2 stages"), HasSubstr("stage 1 backward")));
  const auto json = nlohmann::json::parse(harpe({"profile", "check", file.string(), "--json"}).out);
  EXPECT_EQ(json["instructions"].size(), 4);
}

TEST(Commands, AScheduleIsDrawnInUnitsOfAForward) {
  const Said said = harpe({"schedule", "show", "1f1b", "--stages", "2", "--micro-batches", "2"});
  EXPECT_EQ(said.status, 0);
  EXPECT_THAT(said.out, HasSubstr("stage 0  F0 F1 "));
  EXPECT_THAT(said.out, HasSubstr("makespan 9"));  // (m + p - 1)(F + B)
  const auto json = nlohmann::json::parse(harpe({"schedule", "show", "1f1b", "--json"}).out);
  EXPECT_EQ(json["stages"], 4);
  EXPECT_EQ(json["unit_makespan"], 33);
}

TEST(Commands, ADrawingKeepsToItsWidth) {
  const Said said = harpe({"schedule", "show", "1f1b", "--micro-batches", "50", "--width", "60"});
  std::istringstream lines(said.out.substr(0, said.out.find("\n\nstage  ")));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) EXPECT_LE(line.size(), 60) << line;
  EXPECT_THAT(said.out, HasSubstr(" ..."));
}

TEST(Commands, ConvertedSchedulesReadBackTheSame) {
  const auto file = std::filesystem::path(testing::TempDir()) / "commands_test_schedule.json";
  const Said json = harpe({"schedule", "convert", "zb-h1", "--to", "json", "--out", file.string()});
  ASSERT_EQ(json.status, 0) << json.err;
  const Said direct = harpe({"schedule", "convert", "zb-h1", "--to", "torch"});
  const Said over_json = harpe({"schedule", "convert", file.string(), "--to", "torch"});
  EXPECT_THAT(direct.out, Not(IsEmpty()));
  EXPECT_EQ(direct.out, over_json.out);
}

TEST(Commands, ColoursAppearOnlyOnATerminal) {
  EXPECT_THAT(harpe({"plan"}).err, Not(HasSubstr("\x1b")));
  std::ostringstream out, err;
  Console console{.out = out, .err = err, .colour_out = true, .colour_err = true};
  EXPECT_EQ(run_harpe({"plan"}, console), 2);
  EXPECT_THAT(err.str(), HasSubstr("\x1b[1;31merror:\x1b[0m"));
}

}  // namespace
}  // namespace harpe::command
