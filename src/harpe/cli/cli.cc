#include "harpe/cli/cli.h"

#include <memory>

namespace harpe {
namespace {

std::unique_ptr<Commands> harpe_commands() {
  auto commands = std::make_unique<Commands>(
      "harpe",
      "certified energy plans for pipeline-parallel training\n"
      "Harpe sets the clock of every computation of a training pipeline so that the iteration "
      "needs "
      "the least energy at the time you choose, and proves how good that is. It changes neither "
      "the "
      "model nor its hyper-parameters: it only sets GPU clocks.",
      "harpe synth --out profile.csv\n"
      "harpe plan --profile profile.csv --microbatches 96 --blocking-power 83.64 \\\n"
      "    --out plan\n"
      "harpe verify plan/plan.json --profile profile.csv");
  for (const auto add :
       {add_plan_command, add_schedule_command, add_verify_command, add_profile_command,
        add_predict_command, add_synth_command, add_devices_command, add_run_command,
        add_monitor_command, add_switch_latency_command, add_agent_command, add_serve_command,
        add_clock_command, add_limit_command, add_job_command, add_completion_command,
        add_man_command}) {
    add(*commands);
  }
  return commands;
}

}  // namespace

int run_harpe(const std::vector<std::string>& arguments, Console& console) {
  return run_program(harpe_commands, arguments, console);
}

}  // namespace harpe
