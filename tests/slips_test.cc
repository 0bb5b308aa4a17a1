// Wrong user input gets errors in Harpe's words, not in those of a library or an inner layer.

#include <gmock/gmock.h>

#include <fstream>
#include <functional>
#include <regex>
#include <set>

#include "command_run.h"

namespace harpe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Words = std::vector<std::string>;

/// Returns texts that only a library, a protocol or a printed double contains.
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

/// Checks that the errors are printed, in words that a user can act on.
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

/// Subcommands and options of a command, parsed from its help.
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

// The unknown option at the end prevents that commands run.
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
      try_line(with(command, {option + "=-1", "--no-such-option"}));
      if (HARPE_UNDER_SANITIZERS) continue;  // each line takes ten times as long
      for (const char* value : {"zzz", "1e999", ""})
        try_line(with(command, {option + "=" + value, "--no-such-option"}));
      try_line(with(command, {option}));
      try_line(with(command, {"--no-such-option", option}));
      try_line(with(command, {option, "1", option, "2", "--no-such-option"}));
    }
  });
  EXPECT_GT(commands, 40u);
  EXPECT_GT(lines, HARPE_UNDER_SANITIZERS ? 300u : 1500u);
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
  std::filesystem::create_directories(path("empty"));
  std::vector<std::string> files = {path("absent.csv"), path("absent"), path("empty"), "/dev/null"};
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

TEST_F(Slips, OldSpellingsAreTakenAndHelpMarksWhatIsRequired) {
  const std::string file = profile();
  EXPECT_EQ(harpe_says({"plan", file, "--microbatches", "4", "--blocking-power", "80"}).status, 0);
  EXPECT_THAT(harpe_says({"plan", "--help"}).out,
              AllOf(HasSubstr("--micro-batches M"), Not(HasSubstr("--microbatches"))));
  EXPECT_THAT(harpe_says({"verify", "--help"}).out, HasSubstr("(required)"));
  EXPECT_EQ(harpe_says({"version"}).out, harpe_says({"--version"}).out);
  EXPECT_THAT(harpe_says({"job", "--help"}).out,
              AllOf(HasSubstr("list, ls"), HasSubstr("remove, rm")));
  EXPECT_EQ(harpe_says({"job", "ls", "--help"}).status, 0);
}

TEST_F(Slips, ACheckTakesBlockingPowersAsAPlanDoes) {
  const std::string file = profile();
  const auto check = [&](const char* power) {
    return harpe_says({"profile", "check", file, "--blocking-power", power});
  };
  EXPECT_EQ(check("80").status, 0);
  EXPECT_EQ(check("80,81").status, 0) << check("80,81").err;
  const Said many = check("80,81,82");
  EXPECT_EQ(many.status, 2);
  EXPECT_THAT(many.err, HasSubstr("--blocking-power has 3 values, the pipeline has 2 stages"));
}

TEST_F(Slips, ATableIsTakenForTheProfile) {
  const std::string file = profile();
  const Said said = harpe_says({"plan", file, "--micro-batches", "4", "--blocking-power", "80"});
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(harpe_says({"plan", file, "--profile", file, "--micro-batches", "4"}).err,
              HasSubstr("give one profile"));
  EXPECT_THAT(harpe_says({"plan", write("j.json", "{\"a\": 1}")}).err, HasSubstr("is JSON"));
  EXPECT_THAT(harpe_says({"profile", file}).err, HasSubstr("harpe profile check"));
}

struct Answer {
  const char* name;
  Words options;
  int status;
  const char* said;
};

class SlipsOfNumbers : public Slips, public testing::WithParamInterface<Answer> {};

TEST_P(SlipsOfNumbers, AreAnsweredWithWhatWasProbablyMeant) {
  const auto& [name, more, status, words] = GetParam();
  const Words options = with({"--quick"}, more);
  const Said said = plan(options);
  EXPECT_EQ(said.status, status) << said.err;
  EXPECT_THAT(said.err, HasSubstr(words));
  EXPECT_THAT(said.err, HasSubstr(status == 0 ? "warning:" : "error:"));
  Words as_json = options;
  as_json.emplace_back("--json");
  const Said printed = plan(as_json);
  EXPECT_THAT(printed.err, IsEmpty());
  EXPECT_THAT(printed.out, HasSubstr(status == 0 ? "\"warnings\"" : "\"diagnostics\""));
}

// The fastest iteration takes about 0.74 s, that of least energy 0.92 s; all-max draws 750 W.
INSTANTIATE_TEST_SUITE_P(
    All, SlipsOfNumbers,
    testing::Values(
        Answer{"DeadlineWithoutItsPoint", {"--deadline", "8"}, 2, "is 0.8 s meant?"},
        Answer{"DeadlineInMilliseconds", {"--deadline", "800"}, 2, "is 800ms meant?"},
        Answer{"SlowdownOfFiveTimes", {"--slowdown", "500"}, 2, "times the fastest iteration"},
        Answer{"LateDeadline", {"--deadline", "2"}, 0, "beyond the least energy"},
        Answer{"FractionForPercent",
               {"--slowdown", "0.05"},
               0,
               "read as 0.05 %; if it is a fraction, write 5%"},
        Answer{"PowerCapInKilowatts", {"--power-cap", "0.6"}, 2, "is 0.6kW meant?"},
        Answer{"PowerCapAboveAllMax", {"--power-cap", "5kW"}, 0, "changes nothing"},
        Answer{"SlowStraggler", {"--straggler", "120x"}, 0, "is 1.2x meant?"},
        Answer{"TransferInMilliseconds", {"--transfer-forward", "3"}, 2, "is 3ms meant?"},
        Answer{"LongTransfer", {"--transfer-forward", "0.2"}, 0, "longer than the longest"},
        Answer{"LatencyInMilliseconds", {"--switch-latency", "10"}, 0, "is 10ms meant?"}),
    [](const auto& instance) { return instance.param.name; });

TEST_F(Slips, BlockingPowerInAnotherUnitIsRefused) {
  const std::string file = profile();
  const auto with_power = [&](const char* power) {
    return harpe_says({"plan", file, "--micro-batches", "4", "--blocking-power", power});
  };
  EXPECT_THAT(with_power("0.08364").err, HasSubstr("is 0.08364kW meant?"));
  EXPECT_THAT(with_power("83640").err, HasSubstr("is 83640mW meant?"));
  EXPECT_THAT(with_power("83kW").err, HasSubstr("is more than any computation"));
  EXPECT_EQ(with_power("0").status, 0);
}

TEST_F(Slips, APowerCapInKilowattsIsNamedAlsoWhereWaitingCountsNothing) {
  const Said said = harpe_says({"plan", profile(), "--micro-batches", "4", "--power-cap", "0.6"});
  EXPECT_EQ(said.status, 2);
  EXPECT_THAT(said.err, HasSubstr("is 0.6kW meant? (a number without a unit is W)"));
}

/// Returns the profile with every number of a column multiplied by `scale`, and other separators.
std::string changed(const std::string& csv, std::size_t column, double scale, char separator = ',',
                    bool decimal_comma = false) {
  std::istringstream lines(csv);
  std::string text;
  bool is_header = true;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream cells(line);
    std::string cell;
    for (std::size_t i = 0; std::getline(cells, cell, ','); ++i) {
      if (i == column && !is_header && scale != 1) {
        std::ostringstream number;
        number.precision(9);
        number << std::stod(cell) * scale;
        cell = number.str();
      }
      if (decimal_comma) std::ranges::replace(cell, '.', ',');
      text += (i == 0 ? "" : std::string(1, separator)) + cell;
    }
    text += '\n';
    is_header = false;
  }
  return text;
}

TEST_F(Slips, ProfilesInOtherUnitsAreNamed) {
  profile();
  const std::string csv = read("p.csv");
  struct Unit {
    std::size_t column;
    double scale;
    const char* said;
  };
  for (const auto& [column, scale, said] :
       {Unit{3, 1e3, "is the time in ms?"}, Unit{4, 1e3, "is the energy in mJ?"},
        Unit{4, 1e-3, "is the energy in kJ?"}, Unit{3, 1e6, "is the time in us?"},
        Unit{2, 1e-3, "looks like GHz: expected MHz, 855"}, Unit{2, 1e3, "looks like kHz"}}) {
    const Said refused = plan({}, write("u.csv", changed(csv, column, scale)));
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr(said));
    EXPECT_EQ(std::ranges::count(refused.err, '\n'), 1) << refused.err;
  }
  const std::string both = changed(changed(csv, 3, 2500), 4, 2500);
  EXPECT_THAT(plan({}, write("u.csv", both)).err, HasSubstr("are they in ms and mJ?"));
  const Said checked = harpe_says({"profile", "check", write("u.csv", changed(csv, 3, 1e3))});
  EXPECT_THAT(checked.err, HasSubstr("warning: "));
  EXPECT_THAT(checked.out, HasSubstr("The units look wrong, nothing else.\n"));
}

TEST_F(Slips, OtherSeparatorsAreGuessedAndSaid) {
  profile();
  const std::string csv = read("p.csv"), usual = plan({}, write("u.csv", changed(csv, 9, 1))).out;
  EXPECT_THAT(usual, HasSubstr("least energy"));
  const Said semicolons = plan({}, write("u.csv", "\xef\xbb\xbf" + changed(csv, 9, 1, ';', true)));
  EXPECT_EQ(semicolons.out, usual);
  EXPECT_THAT(semicolons.err, HasSubstr("separated by ';', decimal commas are read as points"));
  const Said tabs = plan({}, write("u.csv", changed(csv, 9, 1, '\t')));
  EXPECT_EQ(tabs.out, usual);
  EXPECT_THAT(tabs.err, HasSubstr("separated by tabs"));
}

TEST_F(Slips, ColumnsByAnotherNameAreSuggested) {
  const Said said =
      plan({}, write("u.csv", "pp_stage,op,freq,time_ms,joules\n0,forward,1410,1,1\n"));
  EXPECT_THAT(said.err, AllOf(HasSubstr("is 'op' meant?"), HasSubstr("is 'freq' meant?"),
                              HasSubstr("is 'time_ms' meant? (it must be in s)"),
                              HasSubstr("is 'joules' meant?"), HasSubstr("is 'pp_stage' meant?")));
}

TEST_F(Slips, AnOptionBeforeACommandIsNamedNotItsValue) {
  const auto said = [](const Words& line) { return harpe_says(line).err; };
  EXPECT_THAT(said({"profile", "measure", "--clokcs", "6", "--", "train"}),
              AllOf(HasSubstr("no option '--clokcs'; did you mean '--clocks'?"),
                    Not(HasSubstr("COMMAND"))));
  EXPECT_THAT(said({"run", "--carbn", "3", "--", "true"}), HasSubstr("did you mean '--carbon'?"));
  EXPECT_THAT(said({"run", "--optimise", "python3", "train.py"}),
              HasSubstr("no option '--optimise'; did you mean '--optimize'?"));
  EXPECT_THAT(said({"run", "python3", "train.py", "--epochs", "3"}),
              AllOf(HasSubstr("harpe run -- python3 ..."), Not(HasSubstr("--epochs"))));
}

TEST_F(Slips, APlanIsNotWrittenOverItsOwnProfile) {
  profile();
  const std::string csv = read("p.csv");
  std::filesystem::create_directories(path("mine"));
  const std::string file = write("mine/profile.csv", csv);
  const Said said = plan({"--fit", "--out", path("mine")}, file);
  EXPECT_EQ(said.status, 2);
  EXPECT_THAT(said.err, HasSubstr("would overwrite the input"));
  EXPECT_EQ(read("mine/profile.csv"), csv);
}

TEST_F(Slips, OneBracketForTwoIsNamedInASimulation) {
  EXPECT_THAT(
      harpe_says({"devices", "--simulate", write("s.toml", "[gpu]\nmodel = \"a40\"\n")}).err,
      HasSubstr("write [[gpu]] instead of [gpu]"));
}

TEST_F(Slips, ChunksThatAScheduleDoesNotHaveAreNamed) {
  const std::string file = profile();
  const auto warnings = [&](const Words& more) {
    return harpe_says(with(more, {"--chunks", "3"})).err;
  };
  EXPECT_EQ(warnings({"plan", file, "--micro-batches", "4", "--blocking-power", "83.64"}),
            "warning: --chunks 3 is ignored: 1f1b has 1 chunk a stage\n");
  EXPECT_EQ(warnings({"schedule", "show", "zb-v"}),
            "warning: --chunks 3 is ignored: zb-v has 2 chunks a stage\n");
  EXPECT_EQ(warnings({"schedule", "convert", "gpipe", "--to", "json"}),
            "warning: --chunks 3 is ignored: gpipe has 1 chunk a stage\n");
  EXPECT_EQ(warnings({"schedule", "show", "looped-bfs"}), "");
}

TEST_F(Slips, AFileThatIsNotThereNamesTheNearest) {
  profile();
  EXPECT_THAT(plan({}, path("p.csf")).err, HasSubstr("p.csv'?"));
  EXPECT_THAT(plan({}, path("none/p.csv")).err, HasSubstr("none does not exist"));
}

TEST_F(Slips, KeepAMeasuredProfileThatAModelWouldReplace) {
  const std::string measured = "stage,instruction,frequency,time,energy\n0,forward,1410,0.05,20\n";
  std::ofstream(path("measured.csv")) << measured;
  const Said said = harpe_says({"synth", "--stages", "2", "--out", path("measured.csv")});
  EXPECT_EQ(said.status, 2);
  EXPECT_THAT(said.err, HasSubstr("measured.csv exists and is not a synthetic profile"));
  std::ifstream kept(path("measured.csv"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(kept), {}), measured);
  for (int again = 0; again < 2; ++again)
    EXPECT_EQ(harpe_says({"synth", "--stages", "2", "--out", path("model.csv")}).status, 0);
}

TEST_F(Slips, PercentagesAreReadAlike) {
  const auto chosen = [&](const char* slowdown) { return plan({"--slowdown", slowdown}).out; };
  EXPECT_EQ(chosen("5%"), chosen("5"));
  EXPECT_EQ(chosen("0.05%"), chosen("0.05"));
  EXPECT_NE(chosen("5%"), chosen("0.05"));
  EXPECT_EQ(harpe_says({"synth", "--noise", "0.5"}).status, 0);
  EXPECT_THAT(harpe_says({"synth", "--noise", "50"}).err, HasSubstr("at most 10%"));
}

}  // namespace
}  // namespace harpe
