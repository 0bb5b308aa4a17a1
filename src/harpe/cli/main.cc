#include <string>
#include <vector>

#include "harpe/cli/command.h"

int main(int argc, char** argv) {
  harpe::Console console = harpe::Console::of_process();
  return harpe::run_command(std::vector<std::string>(argv + 1, argv + argc), console);
}
