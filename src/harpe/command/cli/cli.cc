#include "harpe/command/cli/cli.h"

#include <memory>

#include "harpe/command/carbon_cli/carbon_cli.h"
#include "harpe/command/plan_cli/plan_cli.h"

namespace harpe::command {
namespace {

std::unique_ptr<Commands> harpe_commands() {
  auto commands = std::make_unique<Commands>("harpe", kAboutHarpe, kHarpeExamples);
  add_planning_commands(*commands);
  add_carbon_command(*commands);
  for (const auto add :
       {add_carbon_report_command, add_profile_measure_command, add_devices_command,
        add_run_command, add_monitor_command, add_switch_latency_command, add_agent_command,
        add_lab_commands, add_serve_command, add_demo_command, add_clock_command, add_limit_command,
        add_job_command, add_batch_size_command, add_completion_command}) {
    add(*commands);
  }
  add_man_command(*commands, "schedule show");
  return commands;
}

}  // namespace

int run_harpe(const std::vector<std::string>& arguments, Console& console) {
  return run_program(harpe_commands, arguments, console);
}

}  // namespace harpe::command
