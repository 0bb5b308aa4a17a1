#include <algorithm>
#include <string>
#include <vector>

#include "harpe/command/cli/cli.h"

int main(int argc, char** argv) {
  harpe::command::Console console = harpe::command::Console::of_process();
  std::vector<std::string> arguments(argv + 1, argv + argc);
  // Another program has the options and subcommands of these commands. If it cannot be started, the
  // command reports why, whatever follows it.
  if (const auto call = harpe::command::lab_call(arguments)) {
    (void)harpe::command::become_lab(*call);
    const bool wants_json = std::ranges::count(arguments, "--json") > 0;
    arguments = call->command;
    if (wants_json) arguments.emplace_back("--json");
  }
  return harpe::command::run_harpe(arguments, console);
}
