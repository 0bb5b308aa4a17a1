#include <string>
#include <vector>

#include "harpe/command/agent_cli/agent_cli.h"

int main(int argc, char** argv) {
  harpe::command::Console console = harpe::command::Console::of_process();
  return harpe::command::run_program(harpe::command::agent_commands,
                                     std::vector<std::string>(argv + 1, argv + argc), console);
}
