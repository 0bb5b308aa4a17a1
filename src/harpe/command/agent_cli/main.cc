#include <string>
#include <vector>

#include "harpe/command/agent_cli/agent_cli.h"

int main(int argc, char** argv) {
  harpe::Console console = harpe::Console::of_process();
  return harpe::run_program(harpe::agent_commands, std::vector<std::string>(argv + 1, argv + argc),
                            console);
}
