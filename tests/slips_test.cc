// What users type wrong is answered in Harpe's words, not in those of a library or an inner layer.

#include <gmock/gmock.h>

#include <fstream>
#include <regex>
#include <set>

#include "command_run.h"

namespace harpe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Words = std::vector<std::string>;

/// What only a library, a protocol or a printed double says.
const std::vector<std::string>& foreign_fragments() {
  static const std::vector<std::string> kFragments = {"At Most",
                                                      "At Least",
                                                      "at most 1 required",
                                                      "required but received",
                                                      " is required",
                                                      " requires ",
                                                      " excludes ",
                                                      "Could not convert",
                                                      "Too many",
                                                      "disallowed",
                                                      "Should be true",
                                                      "not in range",
                                                      "not an allowed",
                                                      "arguments to",
                                                      "was not expected",
                                                      "OptionNotFound",
                                                      "syntax error",
                                                      "last read",
                                                      "parsing value",
                                                      "json.exception",
                                                      "type_error",
                                                      "nlohmann",
                                                      "CLI::",
                                                      "std::",
                                                      "basic_string",
                                                      "bad_alloc",
                                                      "terminate",
                                                      "defect:",
                                                      "body:",
                                                      "errno",
                                                      "(see  --help)",
                                                      "invalid argument"};
  return kFragments;
}

/// The errors are there, and in words that a user can act on.
void expect_own_words(const Words& line, const Said& said) {
  std::string asked = "harpe";
  for (const std::string& word : line) asked += " '" + word + "'";
  SCOPED_TRACE(asked);
  const std::string text = said.err + said.out;
  EXPECT_NE(said.status, 0) << text;
  EXPECT_NE(said.status, 70) << text;
  EXPECT_THAT(text, Not(IsEmpty()));
  for (const std::string& fragment : foreign_fragments()) {
    EXPECT_THAT(text, Not(HasSubstr(fragment)));
  }
  static const std::regex kAllDigits("[0-9]\\.[0-9]{9,}");
  EXPECT_FALSE(std::regex_search(text, kAllDigits)) << text;
}

/// Subcommands and options of a command, as its help names them.
struct Described {
  std::vector<std::string> subcommands;
  std::vector<std::string> flags, valued;
};

Described described(Words command) {
  command.emplace_back("--help");
  const Said said = harpe_says(command);
  EXPECT_EQ(said.status, 0);
  Described found;
  std::istringstream lines(said.out);
  bool in_commands = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.front() != ' ') in_commands = line == "Commands:";
    std::smatch match;
    if (in_commands && std::regex_search(line, match, std::regex("^  ([a-z][a-z-]*)(,| |$)"))) {
      found.subcommands.push_back(match[1]);
    }
    if (std::regex_search(line, match, std::regex("^  (--[a-z-]+)( [^ ]+)?( {2,}|$)"))) {
      (match[2].length() == 0 ? found.flags : found.valued).push_back(match[1]);
    }
  }
  return found;
}

void visit(const Words& command, const std::function<void(const Words&, const Described&)>& look) {
  const Described found = described(command);
  look(command, found);
  for (const std::string& name : found.subcommands) {
    Words below = command;
    below.push_back(name);
    visit(below, look);
  }
}

Words with(Words line, const Words& more) {
  line.insert(line.end(), more.begin(), more.end());
  return line;
}

// The unknown option at the end keeps every command from running.
TEST(WrongCommandLines, OfEverySubcommandAreAnsweredInItsOwnWords) {
  std::size_t lines = 0, commands = 0;
  const auto try_line = [&](const Words& line) {
    ++lines;
    expect_own_words(line, harpe_says(line));
  };
  visit({}, [&](const Words& command, const Described& found) {
    ++commands;
    try_line(with(command, {"--no-such-option"}));
    try_line(with(command, {"surplus", "words", "here", "--no-such-option"}));
    try_line(with(command, {"--no-such-option", "--json"}));
    for (const std::string& flag : found.flags) {
      if (flag == "--help" || flag == "--version" || flag == "--json") continue;
      for (const char* value : {"=perhaps", "=", "=-1", "=no"}) {
        try_line(with(command, {flag + value, "--no-such-option"}));
      }
    }
    for (const std::string& option : found.valued) {
      try_line(with(command, {option}));
      try_line(with(command, {"--no-such-option", option}));
      for (const char* value :
           {"zzz", "-1", "1e999", "nan", "0x10", "", "1,2;3", "9999999999999"}) {
        try_line(with(command, {option + "=" + value, "--no-such-option"}));
      }
      try_line(with(command, {option, "1", option, "2", "--no-such-option"}));
    }
  });
  EXPECT_GT(commands, 40u);
  EXPECT_GT(lines, 2000u);
}

class Slips : public CommandTest {
 protected:
  std::string profile() const {
    const Said said = harpe_says({"synth", "--stages", "2", "--out", path("p.csv")});
    EXPECT_EQ(said.status, 0) << said.err;
    return path("p.csv");
  }
  Said plan(Words more, const std::string& file = {}) const {
    const Words line = {"plan",
                        "--profile",
                        file.empty() ? profile() : file,
                        "--micro-batches",
                        "4",
                        "--blocking-power",
                        "83.64"};
    return harpe_says(with(line, more));
  }
};

TEST_F(Slips, WrongFilesAreAnsweredInOwnWords) {
  const std::string good = profile();
  ASSERT_EQ(plan({"--out", path("d"), "--certificate"}).status, 0);
  const std::string plan_file = path("d/plan.json");
  std::vector<std::string> files = {path("absent.csv"), path("absent"), path("d"), "/dev/null"};
  int number = 0;
  for (const std::string& text :
       {std::string("{"), std::string("[1, 2"), std::string("{\"a\": 1}"), std::string("nonsense"),
        std::string("\xff\xfe\x00z", 4), std::string(1, '\0'), std::string("a,b\n1,2\n"),
        std::string("[gpu]\nname = \"x\"\n"), std::string("x = \"\n"), std::string("\n\n"),
        std::string("{\"format\": \"harpe.plan/1\"}")}) {
    files.push_back(write("bad" + std::to_string(number++), text));
  }
  for (const std::string& file : files) {
    const std::vector<Words> lines = {
        {"plan", file},
        {"plan", "--profile", file, "--micro-batches", "4"},
        {"plan", "--profile", good, "--schedule", file + "."},
        {"plan", "--profile", good, "--schedule", file},
        {"verify", file, "--profile", good},
        {"verify", plan_file, "--profile", file},
        {"verify", plan_file, "--profile", good, "--certificate", file},
        {"predict", file, "--profile", good},
        {"predict", plan_file, "--profile", file},
        {"profile", "check", file},
        {"schedule", "show", file},
        {"schedule", "convert", file, "--to", "json"},
        {"devices", "--simulate", file},
        {"monitor", "--simulate", file, "--count", "1"},
        {"replay", "power-limit", file},
        {"replay", "zeus", file},
        {"carbon", "backtest", file},
        {"carbon", "simulate", "--series", file},
    };
    for (const Words& line : lines) expect_own_words(line, harpe_says(line));
  }
}

}  // namespace
}  // namespace harpe
