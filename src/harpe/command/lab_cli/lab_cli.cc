#include "harpe/command/lab_cli/lab_cli.h"

namespace harpe::command {

void add_replay_command(Commands& commands) {
  CLI::App& replay =
      commands.add(commands.root(), "replay", "drive optimizers of one job over recorded runs",
                   "harpe replay power-limit A40+resnet50+gpu0.csv --eta 0.5\n"
                   "harpe replay zeus traces --gpu v100 --seeds 20");
  add_replay_power_limit_command(commands, replay);
  add_replay_zeus_command(commands, replay);
  add_replay_groups_command(commands, replay);
}

void add_carbon_experiment_commands(Commands& commands) {
  CLI::App& carbon =
      commands.add(commands.root(), "carbon", "judge forecasts and paces over recorded intensities",
                   "harpe carbon backtest ES_2022_hourly.csv --train ES_2021_hourly.csv");
  add_carbon_backtest_command(commands, carbon);
  add_carbon_simulate_command(commands, carbon);
}

std::unique_ptr<Commands> lab_commands(const std::string& name) {
  auto commands = std::make_unique<Commands>(
      name,
      "experiments: emulate clusters, recompute published tables\n"
      "No command here uses a GPU, an agent or a server. `harpe lab`, `harpe replay`, `harpe "
      "carbon backtest` and `harpe carbon simulate` start this program.",
      "harpe lab emulate --config cluster.toml\n"
      "harpe lab reproduce sosp24 DIRECTORY\n"
      "harpe replay zeus traces --gpu v100 --seeds 20");
  add_emulate_command(*commands);
  add_reproduce_command(*commands);
  add_replay_command(*commands);
  add_carbon_experiment_commands(*commands);
  add_man_command(*commands, "reproduce sosp24");
  return commands;
}

}  // namespace harpe::command
