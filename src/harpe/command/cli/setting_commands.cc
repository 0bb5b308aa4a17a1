#include <memory>

#include "harpe/base/json_fields.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/device_setting.h"
#include "harpe/command/command/options.h"

namespace harpe::command {
namespace {

using Kind = node::Setting::Kind;

/// A command that sets and resets one control of GPUs, such as `harpe clock`.
struct SettingCommand {
  std::string name, brief, examples;
  std::string set, set_examples;  ///< descriptions of the subcommands
  std::string reset, reset_examples;
  std::string value, value_help;
  Result<node::Setting> (*parse)(const std::string&);
  Kind reset_kind;
};

/// Parses a clock such as "1200", "1200MHz" or "1200 MHz".
std::optional<std::int64_t> parse_clock(std::string_view text) {
  constexpr std::string_view kUnit = "mhz";
  text = trim(text);
  if (lower(text).ends_with(kUnit)) text = trim(text.substr(0, text.size() - kUnit.size()));
  return parse_integer(text);
}

/// Parses a clock, or a range such as "900-1410".
Result<node::Setting> parse_clock_range(const std::string& text) {
  const std::size_t dash = text.find('-');
  const auto lowest = parse_clock(std::string_view(text).substr(0, dash));
  const auto highest =
      dash == std::string::npos ? lowest : parse_clock(std::string_view(text).substr(dash + 1));
  const auto good = [](const std::optional<std::int64_t>& clock) {
    return clock && *clock > 0 && *clock <= kHighestClock;
  };
  if (!good(lowest) || !good(highest)) {
    return Error::invalid(
        "expected a clock in MHz such as 1200, or a range such as 900-1410, got " +
        in_quotes(text));
  }
  if (*lowest > *highest) {
    return Error::invalid("the range " + in_quotes(text) + " begins above its end");
  }
  return node::Setting{.kind = Kind::kLockClocks,
                       .clocks = {{static_cast<int>(*lowest)}, {static_cast<int>(*highest)}}};
}

Result<node::Setting> parse_power_limit(const std::string& text) {
  return node::Setting{.kind = Kind::kPowerLimit, .limit = HARPE_TRY(parse_watts(text))};
}

/// Adds `--gpus`, `--simulate`, `--socket`, `--direct` and, for a setting, `--for`.
void add_setting_options(CLI::App& app, SettingArguments& arguments, bool reset) {
  add_device_options(app, arguments.devices);
  app.get_option("--simulate")
      ->description(
          "Only with --direct: use the simulated GPUs of this file (also HARPE_SIMULATION). An "
          "agent has its own option: harpe agent --simulate");
  add_text(app, "--socket", "PATH",
           "Socket of the agent (default: HARPE_AGENT_SOCKET, then /run/harpe/agent.sock)",
           arguments.socket);
  if (!reset) {
    add_parsed(app, "--for", "DURATION",
               "Time, such as 30min or 8h, until the agent restores the previous setting "
               "(default: 1h; the agent's policy limits it)",
               arguments.duration, parse_seconds);
  }
  app.add_flag("--direct", arguments.direct,
               reset
                   ? "Reset the driver's setting, without the agent (root)"
                   : "Change the driver's setting, without the agent (root); nothing restores it");
}

void add_setting_command(Commands& commands, const SettingCommand& words) {
  struct Arguments {
    SettingArguments setting;
    std::string value;
  };
  CLI::App& app = commands.add(commands.root(), words.name, words.brief, words.examples);
  const auto set = std::make_shared<Arguments>();
  const std::string command = "harpe " + words.name;
  CLI::App& set_app =
      commands.add(app, "set", words.set, words.set_examples,
                   [set, command, parse = words.parse](Console&) -> Result<Outcome> {
                     const node::Setting setting = HARPE_TRY(parse(set->value));
                     return run_setting(set->setting, {.setting = setting, .command = command});
                   });
  add_argument(set_app, words.value, words.value_help, set->value);
  add_setting_options(set_app, set->setting, false);

  const auto reset = std::make_shared<SettingArguments>();
  CLI::App& reset_app = commands.add(
      app, "reset", words.reset, words.reset_examples,
      [reset, command, kind = words.reset_kind](Console&) {
        return run_setting(*reset, {.setting = {.kind = kind}, .reset = true, .command = command});
      });
  add_setting_options(reset_app, *reset, true);
}

}  // namespace

void add_clock_command(Commands& commands) {
  add_setting_command(
      commands,
      {.name = "clock",
       .brief = "set and reset the clocks of GPUs",
       .examples = "harpe clock set 1200 --gpus 0\n"
                   "harpe clock reset --gpus all",
       .set = "lock the graphics clock\n"
              "Asks the agent to lock the graphics clock of the GPUs to one clock, or to a range, "
              "for some time; then the agent restores the previous setting. Prints the previous "
              "and the present setting. A power limit (harpe limit) has its own time and stays as "
              "it is.",
       .set_examples = "harpe clock set 1200 --gpus 0,1\n"
                       "harpe clock set 900-1410 --gpus all --for 8h",
       .reset = "restore the clocks now\n"
                "Ends the setting of `harpe clock set` on the GPUs; the agent restores the "
                "previous setting. With --direct, root removes any lock from the driver.",
       .reset_examples = "harpe clock reset --gpus 0,1\n"
                         "harpe clock reset --gpus all --direct",
       .value = "MHZ",
       .value_help = "Clock in MHz (1200, 1200MHz), or the lowest and highest: 900-1410",
       .parse = parse_clock_range,
       .reset_kind = Kind::kResetClocks});
}

void add_limit_command(Commands& commands) {
  add_setting_command(
      commands,
      {.name = "limit",
       .brief = "set and reset the power limits of GPUs",
       .examples = "harpe limit set 250 --gpus 0\n"
                   "harpe limit reset --gpus all",
       .set = "set the power limit\n"
              "Asks the agent to limit the power of the GPUs for some time; then the agent "
              "restores the previous limit. Prints the previous and the present setting. Locked "
              "clocks (harpe clock) have their own time and stay as they are.",
       .set_examples = "harpe limit set 250 --gpus 0,1\n"
                       "harpe limit set 250W --gpus all --for 8h",
       .reset = "restore the power limit now\n"
                "Ends the setting of `harpe limit set` on the GPUs; the agent restores the "
                "previous limit. With --direct, root sets the factory limit of the GPU.",
       .reset_examples = "harpe limit reset --gpus 0,1\n"
                         "harpe limit reset --gpus all --direct",
       .value = "WATTS",
       .value_help = "Power limit of each GPU, W",
       .parse = parse_power_limit,
       .reset_kind = Kind::kResetPowerLimit});
}

}  // namespace harpe::command
