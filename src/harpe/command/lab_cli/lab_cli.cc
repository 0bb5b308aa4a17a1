#include "harpe/command/lab_cli/lab_cli.h"

namespace harpe {

std::unique_ptr<Commands> lab_commands() {
  auto commands = std::make_unique<Commands>(
      "harpe-lab",
      "experiments: clusters that are emulated, published tables recomputed\n"
      "Nothing here touches a GPU, an agent or a server. `harpe lab` starts this program.",
      "harpe lab emulate --config cluster.toml\n"
      "harpe lab reproduce sosp24 DIRECTORY");
  add_emulate_command(*commands);
  add_reproduce_command(*commands);
  add_man_command(*commands, "reproduce sosp24");
  return commands;
}

}  // namespace harpe
