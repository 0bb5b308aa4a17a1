#include "harpe/command/carbon_cli/carbon_cli.h"

namespace harpe::command {

void add_carbon_command(Commands& commands) {
  CLI::App& carbon =
      commands.add(commands.root(), "carbon", "carbon intensities over time, and their forecasts",
                   "harpe carbon now uk:13\n"
                   "harpe carbon backtest ES_2022_hourly.csv --train ES_2021_hourly.csv");
  add_carbon_now_command(commands, carbon);
  add_carbon_history_command(commands, carbon);
  add_carbon_forecast_command(commands, carbon);
  add_carbon_prices_command(commands, carbon);
}

}  // namespace harpe::command
