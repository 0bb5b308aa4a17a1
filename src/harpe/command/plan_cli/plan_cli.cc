#include "harpe/command/plan_cli/plan_cli.h"

namespace harpe::command {

void add_planning_commands(Commands& commands) {
  for (const auto add :
       {add_plan_command, add_compare_command, add_schedule_command, add_verify_command,
        add_profile_command, add_predict_command, add_synth_command})
    add(commands);
}

}  // namespace harpe::command
