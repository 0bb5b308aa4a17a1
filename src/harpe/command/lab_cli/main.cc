#include <string>
#include <vector>

#include "harpe/command/lab_cli/lab_cli.h"

int main(int argc, char** argv) {
  harpe::Console console = harpe::Console::of_process();
  return harpe::run_program(harpe::lab_commands, std::vector<std::string>(argv + 1, argv + argc),
                            console);
}
