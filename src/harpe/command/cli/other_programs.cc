// `harpe agent` and `harpe lab`, which are programs of their own: `harpe` finds them and becomes
// them, so that signals, sockets that systemd hands over and the exit status are theirs.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/find_program.h"
#include "harpe/command/command/agent_command.h"

namespace harpe {
namespace {

/// Replaces this process by the program, with the arguments that follow `subcommand`.
/// \returns  only if it cannot be started: the reason, and what would help
Error become_program(const std::string& program, const std::string& subcommand,
                     const std::vector<std::string>& given, const std::string& remedy) {
  Result<std::filesystem::path> found = find_program(program, ProgramPlaces::of_process());
  if (!found.ok()) {
    Error error = found.error();
    error.diagnostics.push_back({.message = remedy});
    return error;
  }
  std::vector<std::string> words{found->string()};
  const auto at = std::ranges::find(given, subcommand);
  if (at != given.end()) words.insert(words.end(), std::next(at), given.end());
  return become(std::move(words));
}

}  // namespace

Error become_lab(const std::vector<std::string>& given) {
  return become_program(
      "harpe-lab", kLab, given,
      "the experiments of `harpe lab` are a program of their own: install the package harpe-lab "
      "(cmake --build BUILD --target harpe-lab builds it)");
}

void add_agent_command(Commands& commands) {
  const auto start = [&commands](Console&) -> Result<Outcome> {
    return become_program(
        "harpe-agent", "agent", commands.arguments(),
        "`harpe agent` starts it: install it beside harpe (cmake --install installs both; cmake "
        "--build BUILD --target harpe-agent builds it)");
  };
  CLI::App& app = commands.add(commands.root(), "agent", agent_description(),
                               agent_examples("harpe agent"), start);
  // Read here only so that what is wrong with them is said without the daemon.
  add_agent_options(commands, app, std::make_shared<AgentArguments>(), start);
}

/// Adds `lab` to the list of subcommands, the manual page and completion. `main` becomes the other
/// program before it reads options, so that the action runs only if it could not.
void add_lab_command(Commands& commands) {
  commands.add(
      commands.root(), kLab,
      "experiments: clusters that are emulated, published tables recomputed\n"
      "A program of its own, harpe-lab: operators never need it. `harpe lab --help` lists its "
      "subcommands.",
      "harpe lab --help\n"
      "harpe lab emulate --config cluster.toml\n"
      "harpe lab reproduce sosp24 DIRECTORY",
      [](Console&) -> Result<Outcome> { return become_lab({kLab}); });
}

}  // namespace harpe
