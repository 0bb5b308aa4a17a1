#include <memory>

#include "harpe/base/json_fields.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/device_setting.h"
#include "harpe/command/command/options.h"

namespace harpe::command {
namespace {

struct ClockArguments {
  SettingArguments setting;
  std::string range;
};

/// "1200", "1200MHz", "1200 MHz".
std::optional<std::int64_t> parse_clock(std::string_view text) {
  constexpr std::string_view kUnit = "mhz";
  text = trim(text);
  if (lower(text).ends_with(kUnit)) text = trim(text.substr(0, text.size() - kUnit.size()));
  return parse_integer(text);
}

/// A clock, or "900-1410".
Result<ClockRange> parse_clock_range(const std::string& text) {
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
  return ClockRange{{static_cast<int>(*lowest)}, {static_cast<int>(*highest)}};
}

constexpr const char* kClockCommand = "harpe clock";

}  // namespace

void add_clock_command(Commands& commands) {
  CLI::App& clock = commands.add(commands.root(), "clock", "set and reset the clocks of GPUs",
                                 "harpe clock set 1200 --gpus 0\n"
                                 "harpe clock reset --gpus all");
  const auto set = std::make_shared<ClockArguments>();
  CLI::App& set_app = commands.add(
      clock, "set",
      "lock the graphics clock\n"
      "Asks the agent to keep the graphics clock of the GPUs at one clock, or within a range, "
      "for some time; then it restores what was there before. Says what was before and what is "
      "in force now. A power limit (harpe limit) has its own time and is not touched.",
      "harpe clock set 1200 --gpus 0,1\n"
      "harpe clock set 900-1410 --gpus all --for 8h",
      [set](Console&) -> Result<Outcome> {
        const ClockRange range = HARPE_TRY(parse_clock_range(set->range));
        return run_setting(set->setting,
                           {.setting = {.kind = node::Setting::Kind::kLockClocks, .clocks = range},
                            .command = kClockCommand});
      });
  set_app
      .add_option("MHZ", set->range,
                  "Clock in MHz (1200, 1200MHz), or the lowest and highest: 900-1410")
      ->type_name("MHZ")
      ->required()
      ->group("Arguments");
  add_setting_options(set_app, set->setting, false);

  const auto reset = std::make_shared<ClockArguments>();
  CLI::App& reset_app = commands.add(
      clock, "reset",
      "put the clocks back now\n"
      "Ends what `harpe clock set` asked for on the GPUs; the agent restores what was there "
      "before. With --direct, root removes any lock from the driver.",
      "harpe clock reset --gpus 0,1\n"
      "harpe clock reset --gpus all --direct",
      [reset](Console&) {
        return run_setting(reset->setting, {.setting = {.kind = node::Setting::Kind::kResetClocks},
                                            .reset = true,
                                            .command = kClockCommand});
      });
  add_setting_options(reset_app, reset->setting, true);
}

}  // namespace harpe::command
