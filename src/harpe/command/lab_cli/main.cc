#include <filesystem>
#include <string>
#include <vector>

#include "harpe/command/lab_cli/lab_cli.h"

int main(int argc, char** argv) {
  harpe::command::Console console = harpe::command::Console::of_process();
  // `harpe replay` becomes this program and passes its own name, under which users know the
  // command.
  const bool is_harpe = argc > 0 && std::filesystem::path(argv[0]).filename() == "harpe";
  const auto commands = [&] {
    return harpe::command::lab_commands(is_harpe ? "harpe" : "harpe-lab");
  };
  return harpe::command::run_program(commands, std::vector<std::string>(argv + 1, argv + argc),
                                     console);
}
