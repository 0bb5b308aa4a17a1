#include "harpe/command/replay_cli/replay_cli.h"

namespace harpe {

void add_replay_command(Commands& commands) {
  CLI::App& replay =
      commands.add(commands.root(), "replay", "drive optimizers of one job over recorded runs",
                   "harpe replay power-limit A40+resnet50+gpu0.csv --eta 0.5\n"
                   "harpe replay zeus traces --gpu v100 --seeds 20");
  add_replay_power_limit_command(commands, replay);
  add_replay_zeus_command(commands, replay);
  add_replay_groups_command(commands, replay);
}

}  // namespace harpe
