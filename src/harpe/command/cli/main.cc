#include <string>
#include <vector>

#include "harpe/command/cli/cli.h"

int main(int argc, char** argv) {
  harpe::Console console = harpe::Console::of_process();
  std::vector<std::string> arguments(argv + 1, argv + argc);
  // Another program has the options and subcommands of `harpe lab`. If it cannot be started, the
  // subcommand reports why, whatever follows it.
  if (!arguments.empty() && arguments.front() == harpe::kLab) {
    (void)harpe::become_lab(arguments);
    arguments.resize(1);
  }
  return harpe::run_harpe(arguments, console);
}
