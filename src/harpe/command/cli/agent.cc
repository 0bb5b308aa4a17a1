#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/find_program.h"
#include "harpe/command/command/agent_command.h"

namespace harpe {
namespace {

constexpr const char* kProgram = "harpe-agent";

/// Becomes `harpe-agent` with what follows `agent` among the arguments: the same process, so that
/// signals, sockets that systemd hands over and the exit status are the daemon's own.
Result<Outcome> become_agent(const std::vector<std::string>& given) {
  Result<std::filesystem::path> found = find_program(kProgram, ProgramPlaces::of_process());
  if (!found.ok()) {
    Error error = found.error();
    error.diagnostics.push_back(
        {.message = "`harpe agent` starts it: install it beside harpe (cmake --install installs "
                    "both; cmake --build BUILD --target harpe-agent builds it)"});
    return error;
  }
  std::vector<std::string> words{found->string()};
  const auto agent = std::ranges::find(given, "agent");
  if (agent != given.end()) words.insert(words.end(), std::next(agent), given.end());
  return become(std::move(words));
}

}  // namespace

void add_agent_command(Commands& commands) {
  const auto start = [&commands](Console&) { return become_agent(commands.arguments()); };
  CLI::App& app = commands.add(commands.root(), "agent", agent_description(),
                               agent_examples("harpe agent"), start);
  // Read here only so that what is wrong with them is said without the daemon.
  add_agent_options(commands, app, std::make_shared<AgentArguments>(), start);
}

}  // namespace harpe
