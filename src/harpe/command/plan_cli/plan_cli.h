#pragma once
/// \file
/// The subcommands of `harpe` for planning; they need neither GPUs nor a server.

#include "harpe/command/command/command.h"

namespace harpe::command {

/// Adds `plan`, `compare`, `schedule`, `verify`, `profile`, `predict` and `synth`.
void add_planning_commands(Commands& commands);

// One function per subcommand, each in the file of that name.
void add_plan_command(Commands& commands);
void add_compare_command(Commands& commands);
void add_schedule_command(Commands& commands);
void add_verify_command(Commands& commands);
void add_profile_command(Commands& commands);
void add_predict_command(Commands& commands);
void add_synth_command(Commands& commands);

/// The first lines of `harpe --help`.
inline constexpr const char* kAboutHarpe =
    "certified energy plans for pipeline-parallel training\n"
    "Harpe sets the clock of every computation of a training pipeline so that an iteration needs "
    "the least energy in the time you choose, and proves how close the plan is to the optimum. "
    "Harpe changes neither the model nor its hyper-parameters, only GPU clocks.";
inline constexpr const char* kHarpeExamples =
    "harpe synth --out profile.csv\n"
    "harpe plan --profile profile.csv --micro-batches 96 --blocking-power 83.64 \\\n"
    "    --out plan\n"
    "harpe verify plan/plan.json --profile profile.csv";

}  // namespace harpe::command
