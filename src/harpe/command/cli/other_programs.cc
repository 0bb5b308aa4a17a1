// Commands of the programs `harpe-agent` and `harpe-lab`. `harpe` finds the program and replaces
// itself by it, so that signals, sockets from systemd and the exit status are the program's.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/find_program.h"
#include "harpe/command/cli/shell_words.h"
#include "harpe/command/command/agent_command.h"

namespace harpe::command {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kLab = "lab";

/// Returns the path of a program. \param remedy  the end of the error if there is no such program
Result<std::filesystem::path> find(const std::string& program, const std::string& remedy) {
  Result<std::filesystem::path> found = find_program(program, ProgramPlaces::of_process());
  if (found.ok()) return found;
  Error error = found.error();
  error.diagnostics.push_back({.message = remedy});
  return error;
}

Result<std::filesystem::path> find_lab() {
  return find("harpe-lab",
              "this command is part of harpe-lab, a separate program for experiments: install the "
              "package harpe-lab (cmake --build BUILD --target harpe-lab builds it)");
}

/// Replaces this process by the agent, with the arguments after `agent`.
/// \returns  the reason and the remedy if the agent cannot be started; otherwise does not return
Error become_agent(const Words& given) {
  const Result<std::filesystem::path> found =
      find("harpe-agent",
           "`harpe agent` starts it: install it beside harpe (cmake --install installs both; cmake "
           "--build BUILD --target harpe-agent builds it)");
  if (!found.ok()) return found.error();
  Words words{found->string()};
  const auto at = std::ranges::find(given, "agent");
  if (at != given.end()) words.insert(words.end(), std::next(at), given.end());
  return become(*found, std::move(words));
}

/// A command of harpe-lab that users type as a command of `harpe`. `brief` is the first line of its
/// help in harpe-lab.
struct CommandOfLab {
  Words words;
  std::string brief, examples;
};

const std::array<CommandOfLab, 4>& commands_of_lab() {
  static const std::array<CommandOfLab, 4> kCommands = {{
      {{kLab},
       "experiments: emulate clusters, recompute published tables",
       "harpe lab --help\n"
       "harpe lab emulate --config cluster.toml\n"
       "harpe lab reproduce sosp24 DIRECTORY"},
      {{"replay"},
       "drive optimizers of one job over recorded runs",
       "harpe replay --help\n"
       "harpe replay zeus traces --gpu v100 --seeds 20"},
      {{"carbon", "backtest"},
       "accuracy of forecasts over recorded series",
       "harpe carbon backtest --help\n"
       "harpe carbon backtest ES_2022_hourly.csv --train ES_2021_hourly.csv"},
      {{"carbon", "simulate"},
       "emissions of a job whose speed follows the grid",
       "harpe carbon simulate --help\n"
       "harpe carbon simulate --series ES_2022_hourly.csv --frontier plan/frontier.json"},
  }};
  return kCommands;
}

}  // namespace

std::optional<LabCall> lab_call(const Words& given) {
  const bool asks_for_page = !given.empty() && (given.front() == "help" || given.front() == "man");
  const auto words = std::span(given).subspan(asks_for_page ? 1 : 0);
  for (const CommandOfLab& command : commands_of_lab()) {
    const std::size_t length = command.words.size();
    if (words.size() < length || !std::ranges::equal(command.words, words.first(length))) continue;
    if (command.words.front() != kLab) return LabCall{"harpe", given, command.words};
    if (!asks_for_page) return LabCall{"harpe-lab", {words.begin() + 1, words.end()}, {kLab}};
  }
  return std::nullopt;
}

Error become_lab(const LabCall& call) {
  const Result<std::filesystem::path> found = find_lab();
  if (!found.ok()) return found.error();
  Words words{call.name};
  words.insert(words.end(), call.arguments.begin(), call.arguments.end());
  return become(*found, std::move(words));
}

std::string description_of_lab() {
  const Result<std::filesystem::path> found = find_lab();
  if (!found.ok()) return "";
  const std::string line = shell_text({found->string(), "man", "--json"}) + " 2>/dev/null";
  // NOLINTNEXTLINE(bugprone-command-processor): each word is quoted
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(line.c_str(), "r"), ::pclose);
  std::string text;
  std::array<char, 4096> buffer{};
  for (std::size_t size = 1; pipe && size > 0;) {
    size = std::fread(buffer.data(), 1, buffer.size(), pipe.get());
    text.append(buffer.data(), size);
  }
  return text;
}

void add_agent_command(Commands& commands) {
  const auto start = [&commands](Console&) -> Result<Outcome> {
    return become_agent(commands.arguments());
  };
  CLI::App& app = commands.add(commands.root(), "agent", agent_description(),
                               agent_examples("harpe agent"), start);
  // Read here as well, so that errors in them are reported without the daemon.
  add_agent_options(commands, app, std::make_shared<AgentArguments>(), start);
}

/// Adds the commands of harpe-lab. `main` becomes harpe-lab before it reads options, so the actions
/// run only if that failed.
void add_lab_commands(Commands& commands) {
  for (const auto& [words, brief, examples] : commands_of_lab()) {
    CLI::App* parent = &commands.root();
    std::string name = "harpe";
    for (const std::string& word : words) {
      name += " " + word;
      if (&word != &words.back()) parent = parent->get_subcommand(word);
    }
    commands.add(*parent, words.back(),
                 brief +
                     "\nThis command is part of harpe-lab, a separate program that operators do "
                     "not need: `" +
                     name + " --help` shows its help.",
                 examples,
                 [&words](Console&) -> Result<Outcome> { return become_lab(*lab_call(words)); });
  }
}

}  // namespace harpe::command
