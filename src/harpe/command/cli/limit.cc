#include <memory>

#include "harpe/base/quantity_text.h"
#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/device_setting.h"
#include "harpe/command/command/options.h"

namespace harpe::command {
namespace {

struct LimitArguments {
  SettingArguments setting;
  std::string watts;
};

constexpr const char* kLimitCommand = "harpe limit";

}  // namespace

void add_limit_command(Commands& commands) {
  CLI::App& limit = commands.add(commands.root(), "limit", "set and reset the power limits of GPUs",
                                 "harpe limit set 250 --gpus 0\n"
                                 "harpe limit reset --gpus all");
  const auto set = std::make_shared<LimitArguments>();
  CLI::App& set_app = commands.add(
      limit, "set",
      "set the power limit\n"
      "Asks the agent to limit the power of the GPUs for some time; then it restores what was "
      "there before. Says what was before and what is in force now. Locked clocks (harpe clock) "
      "have their own time and are not touched.",
      "harpe limit set 250 --gpus 0,1\n"
      "harpe limit set 250W --gpus all --for 8h",
      [set](Console&) -> Result<Outcome> {
        const Watts watts = HARPE_TRY(parse_watts(set->watts));
        return run_setting(set->setting,
                           {.setting = {.kind = node::Setting::Kind::kPowerLimit, .limit = watts},
                            .command = kLimitCommand});
      });
  set_app.add_option("WATTS", set->watts, "Power limit of each GPU, W")
      ->type_name("WATTS")
      ->required()
      ->group("Arguments");
  add_setting_options(set_app, set->setting, false);

  const auto reset = std::make_shared<LimitArguments>();
  CLI::App& reset_app = commands.add(
      limit, "reset",
      "put the power limit back now\n"
      "Ends what `harpe limit set` asked for on the GPUs; the agent restores what was there "
      "before. With --direct, root sets the limit the GPU came with.",
      "harpe limit reset --gpus 0,1\n"
      "harpe limit reset --gpus all --direct",
      [reset](Console&) {
        return run_setting(reset->setting,
                           {.setting = {.kind = node::Setting::Kind::kResetPowerLimit},
                            .reset = true,
                            .command = kLimitCommand});
      });
  add_setting_options(reset_app, reset->setting, true);
}

}  // namespace harpe::command
