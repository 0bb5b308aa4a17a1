// The command line that a page or file records as its origin.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/command/command/command.h"

namespace harpe::command {
namespace {

std::string line_of(std::vector<std::string> arguments) {
  constexpr std::array<std::string_view, 2> kOutputs = {"--out", "--csv"};
  Commands commands("harpe", "about", "harpe");
  commands.keep_arguments(std::move(arguments));
  return commands.command_line(kOutputs);
}

TEST(CommandLine, CanBeTypedAgain) {
  EXPECT_EQ(line_of({"plan", "--profile", "a b.csv", "--slowdown=5%", "--job", "it's", ""}),
            "harpe plan --profile 'a b.csv' --slowdown=5% --job 'it'\\''s' ''");
  EXPECT_EQ(line_of({"plan", "--job", "$(reboot)", "~", "*"}),
            "harpe plan --job '$(reboot)' '~' '*'");
}

TEST(CommandLine, LeavesOutWhereResultsGo) {
  EXPECT_EQ(line_of({"plan", "--out", "here", "--json", "--csv=x.csv", "p.csv", "--out"}),
            "harpe plan p.csv");
}

TEST(CommandLine, KeepsNoPassword) {
  EXPECT_EQ(line_of({"carbon", "report", "--server", "https://me:secret@head:7787/x@y:z"}),
            "harpe carbon report --server https://me:...@head:7787/x@y:z");
  EXPECT_EQ(line_of({"--server", "http://head:7787"}), "harpe --server http://head:7787");
  EXPECT_EQ(line_of({"--server=http://a:b@c"}), "harpe --server=http://a:...@c");
}

/// Returns the standard error of a program with only the subcommands `plan` and `profile`.
std::string said_of(const std::vector<std::string>& arguments, const std::string& rest) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  const auto make = [&] {
    auto commands = std::make_unique<Commands>("harpe", "about", "harpe plan");
    commands->add(commands->root(), "plan", "plans", "harpe plan",
                  [](Console&) -> Result<Outcome> { return Outcome{}; });
    CLI::App& profile =
        commands->add(commands->root(), "profile", "looks at profiles", "harpe profile check");
    commands->add(profile, "check", "checks one", "harpe profile check",
                  [](Console&) -> Result<Outcome> { return Outcome{}; });
    commands->set_rest(rest);
    return commands;
  };
  EXPECT_EQ(run_program(make, arguments, console), 2);
  return err.str();
}

TEST(CommandLine, OfAPartSaysWhichProgramHasTheRest) {
  const std::string rest = "this program only plans: take the other one";
  EXPECT_EQ(said_of({"run", "--", "sleep", "1"}, rest),
            "error: harpe has no subcommand 'run': " + rest + " (see harpe --help)\n");
  EXPECT_EQ(said_of({"run"}, ""), "error: harpe has no subcommand 'run' (see harpe --help)\n");
  EXPECT_EQ(said_of({"profile", "measure", "--", "torchrun", "train.py"}, rest),
            "error: harpe profile has no subcommand 'measure': " + rest +
                " (see harpe profile --help)\n");
  EXPECT_EQ(said_of({"pla"}, rest),
            "error: harpe has no subcommand 'pla'; did you mean 'plan'? (see harpe --help)\n");
}

}  // namespace
}  // namespace harpe::command
