// The command line of `harpe-lab` as a user meets it: help and manual pages.

#include "harpe/command/lab_cli/lab_cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "harpe/command/command/help.h"
#include "harpe/command/command/said_testing.h"

namespace harpe::command {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using LabWords = std::vector<std::string>;

Said lab(const LabWords& arguments, const std::string& name = "harpe-lab") {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  const int status = run_program([&] { return lab_commands(name); }, arguments, console);
  return {.status = status, .out = out.str(), .err = err.str()};
}

/// Adds the words of every command below `command`.
void add_commands_below(const CLI::App& command, const LabWords& words,
                        std::vector<LabWords>& found) {
  found.push_back(words);
  for (const CLI::App* sub : subcommands(command)) {
    const std::string name = full_name(*sub);
    LabWords below = words;
    below.push_back(name.substr(name.rfind(' ') + 1));
    add_commands_below(*sub, below, found);
  }
}

TEST(LabCommands, EachHasHelpOfAtMost80ColumnsAndAManualPage) {
  std::vector<LabWords> commands;
  add_commands_below(lab_commands()->root(), {}, commands);
  EXPECT_GE(commands.size(), 12);
  for (const LabWords& command : commands) {
    LabWords help = command, page = command;
    help.emplace_back("--help");
    const Said said = lab(help);
    EXPECT_EQ(said.status, 0);
    EXPECT_THAT(said.out, AllOf(StartsWith("harpe-lab"), HasSubstr("Usage: harpe-lab"),
                                HasSubstr("\nExamples:\n")));
    std::istringstream lines(said.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80) << line;
    page.insert(page.begin(), "man");
    EXPECT_THAT(lab(page).out,
                AllOf(StartsWith(".TH"), HasSubstr(".SH NAME"), HasSubstr(".SH EXAMPLES")));
  }
}

TEST(LabCommands, HaveTheNameUnderWhichTheProgramWasStarted) {
  EXPECT_THAT(lab({"replay", "zeus", "--help"}, "harpe").out,
              AllOf(StartsWith("harpe replay zeus: "), HasSubstr("Usage: harpe replay zeus ")));
  EXPECT_THAT(lab({"man", "replay", "zeus"}, "harpe").out,
              StartsWith(".TH \"HARPE\\-REPLAY\\-ZEUS\""));
  const LabWords wrong = {"carbon", "simulate", "--bogus"};
  EXPECT_THAT(lab(wrong, "harpe").err, HasSubstr("(see harpe carbon simulate --help)"));
  EXPECT_THAT(lab(wrong).err, HasSubstr("(see harpe-lab carbon simulate --help)"));
}

TEST(LabCommands, AreDescribedInJson) {
  const auto page = nlohmann::json::parse(lab({"man", "replay", "groups", "--json"}).out);
  EXPECT_THAT(page["page"].get<std::string>(), StartsWith(".TH"));
  const auto& command = page["command"];
  EXPECT_EQ(command["name"], "groups");
  EXPECT_EQ(command["brief"], "write synthetic groups of recurring jobs that overlap");
  EXPECT_TRUE(command["commands"].empty());
  const auto& out = command["options"].at(0);
  EXPECT_EQ(out["names"], nlohmann::json({"--out"}));
  EXPECT_EQ(out["value"], "FILE");
  EXPECT_EQ(out["positional"], false);
  const auto root = nlohmann::json::parse(lab({"man", "--json"}).out)["command"];
  EXPECT_EQ(root["commands"].at(1)["name"], "reproduce");
  EXPECT_EQ(root["commands"].at(1)["commands"].at(0)["name"], "sosp24");
}

}  // namespace
}  // namespace harpe::command
