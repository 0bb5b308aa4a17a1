#include "harpe/replay_cli/replay_cli.h"

namespace harpe {

void add_replay_command(Commands& commands) {
  CLI::App& replay =
      commands.add(commands.root(), "replay", "drive optimizers of one job over recorded runs",
                   "harpe replay zeus traces --gpu v100 --seeds 20");
  add_replay_zeus_command(commands, replay);
}

}  // namespace harpe
