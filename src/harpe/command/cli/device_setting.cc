#include "harpe/command/cli/device_setting.h"

#include <utility>
#include <vector>

#include "harpe/base/quantity_text.h"
#include "harpe/command/cli/setting_report.h"
#include "harpe/command/cli/shell_words.h"
#include "harpe/command/command/options.h"
#include "harpe/node/node_client/lease.h"

namespace harpe::command {
namespace {

node::GpuReading read_directly(Gpu& gpu) {
  node::GpuReading reading;
  if (const auto limit = gpu.power_limit(); limit.ok()) reading.power_limit = *limit;
  if (const auto limit = gpu.enforced_power_limit(); limit.ok()) {
    reading.enforced_power_limit = *limit;
  }
  if (const auto clock = gpu.clock(ClockDomain::kGraphics); clock.ok()) {
    reading.graphics_clock = *clock;
  }
  if (const auto lock = gpu.locked_clocks(ClockDomain::kGraphics); lock.ok()) {
    reading.graphics_lock = node::ClockLock{*lock};
  }
  return reading;
}

Status apply_directly(Gpu& gpu, const node::Setting& setting) {
  switch (setting.kind) {
    case node::Setting::Kind::kLockClocks:
      return gpu.set_locked_clocks(setting.domain, setting.clocks);
    case node::Setting::Kind::kResetClocks:
      return gpu.reset_locked_clocks(setting.domain);
    case node::Setting::Kind::kPowerLimit:
      return gpu.set_power_limit(setting.limit);
    case node::Setting::Kind::kResetPowerLimit: {
      const PowerLimitRange range = HARPE_TRY(gpu.power_limit_range());
      return gpu.set_power_limit(range.factory);
    }
    case node::Setting::Kind::kPersistenceMode:
      break;
  }
  return gpu.set_persistence_mode(setting.enabled);
}

Status set_one(Gpu& gpu, int index, const WantedSetting& wanted, SettingReport& report) {
  const bool is_lock = wanted.setting.kind == node::Setting::Kind::kLockClocks;
  const node::GpuReading before = read_directly(gpu);
  HARPE_TRY(apply_directly(gpu, wanted.setting));
  std::optional<ClockRange> range;
  if (is_lock) range = wanted.setting.clocks;
  const auto read = [&]() -> Result<node::GpuReading> {
    node::GpuReading reading = read_directly(gpu);
    // NVML does not tell; this process knows what it asked for.
    if (!reading.graphics_lock && is_lock) reading.graphics_lock = node::ClockLock{range};
    return reading;
  };
  const bool is_clock = node::control_of(wanted.setting) == node::Control::kClocks;
  const node::GpuReading now =
      HARPE_TRY(is_clock ? read_when_switched(read, range, before) : read());
  report.add(index, wanted.reset ? "reset in the driver" : "set in the driver", before, now, range);
  return ok_status();
}

Result<Outcome> set_directly(const SettingArguments& arguments, const WantedSetting& wanted) {
  ChosenDevices chosen = HARPE_TRY(open_chosen_devices(arguments.devices));
  if (chosen.gpus.empty()) {
    return Error::of(ErrorCode::kNotFound, "there is no GPU:\n" + no_gpu_text(chosen.devices));
  }
  SettingReport report;
  for (const std::string& note : chosen.notes) report.note(note);
  for (const int index : chosen.gpus) {
    Gpu& gpu = *chosen.devices.gpus[static_cast<std::size_t>(index)];
    Status done = set_one(gpu, index, wanted, report);
    if (!done.ok()) report.add_failure(index, std::move(done).error());
  }
  if (!wanted.reset) {
    report.close_with("warning: nothing will put this back; undo it with: " +
                      undo_command(arguments, wanted));
  }
  return report.outcome();
}

}  // namespace

void add_setting_options(CLI::App& app, SettingArguments& arguments, bool reset) {
  add_device_options(app, arguments.devices);
  app.get_option("--simulate")
      ->description(
          "With --direct alone: the simulated GPUs of this file (also HARPE_SIMULATION). An agent "
          "has its own: harpe agent --simulate");
  add_text(app, "--socket", "PATH",
           "Socket of the agent (default: HARPE_AGENT_SOCKET, then /run/harpe/agent.sock)",
           arguments.socket);
  if (!reset) {
    add_parsed(app, "--for", "DURATION",
               "How long, such as 30min or 8h, before the agent restores what was there "
               "(default: 1h; at most what its policy allows)",
               arguments.duration, parse_seconds);
  }
  app.add_flag("--direct", arguments.direct,
               reset ? "Reset the driver itself, without the agent (root)"
                     : "Set the driver itself, without the agent (root): nothing puts it back");
}

std::string undo_command(const SettingArguments& arguments, const WantedSetting& wanted) {
  std::vector<std::string> words;
  if (arguments.direct) words.emplace_back("--direct");
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--gpus", arguments.devices.gpus);
  add("--simulate", arguments.devices.simulation);
  add("--socket", arguments.socket);
  const std::string command = wanted.command + " reset";
  return words.empty() ? command : command + " " + shell_text(words);
}

Result<Outcome> run_setting(const SettingArguments& arguments, const WantedSetting& wanted) {
  if (arguments.direct) return set_directly(arguments, wanted);
  if (!arguments.devices.simulation.empty()) {
    return Error::invalid(
        "--simulate is for --direct: the agent has its own devices (harpe agent --simulate)");
  }
  if (!wanted.reset && arguments.duration.value <= 0) {
    return Error::invalid("--for must be longer than nothing");
  }
  return set_through_agent(arguments, wanted);
}

}  // namespace harpe::command
