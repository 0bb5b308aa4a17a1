#include <string>
#include <vector>

#include "harpe/cli/cli.h"

int main(int argc, char** argv) {
  harpe::Console console = harpe::Console::of_process();
  return harpe::run_harpe(std::vector<std::string>(argv + 1, argv + argc), console);
}
