#include "harpe/command/cli/device_setting.h"

#include <utility>
#include <vector>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/measure_output.h"
#include "harpe/command/cli/shell_words.h"
#include "harpe/command/command/options.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/node/node_client/lease.h"

namespace harpe::command {

namespace {

constexpr Seconds kLongestSwitch{1}, kBetweenReadings{0.02};

std::string clocks_text(const node::GpuReading& reading) {
  std::string text = "graphics clocks ";
  if (!reading.graphics_lock) {
    text += "not locked by the agent (the driver does not report other locks)";
  } else if (reading.graphics_lock->range) {
    text += "locked to " + node::text_of(*reading.graphics_lock->range);
  } else {
    text += "not locked";
  }
  if (reading.graphics_clock) text += ", running at " + node::text_of(*reading.graphics_clock);
  return text;
}

std::string state_text(const node::GpuReading& reading) {
  const auto& enforced = reading.enforced_power_limit;
  const auto& limit = reading.power_limit ? reading.power_limit : enforced;
  std::string text = "power limit " + (limit ? node::text_of(*limit) : std::string("unknown"));
  // The limit that was set may differ from the enforced limit.
  if (limit && enforced && *limit != *enforced)
    text += " (" + node::text_of(*enforced) + " enforced)";
  return text + "; " + clocks_text(reading);
}

Json state_json(const node::GpuReading& reading) {
  Json json;
  const auto watts = [](const std::optional<Watts>& limit) {
    return limit ? Json(limit->value) : Json();
  };
  json["power_limit_w"] = watts(reading.power_limit);
  json["enforced_power_limit_w"] = watts(reading.enforced_power_limit);
  json["graphics_clock_mhz"] =
      reading.graphics_clock ? Json(reading.graphics_clock->value) : Json();
  Json locked;
  if (reading.graphics_lock) {
    locked = Json::array();
    if (const auto& range = reading.graphics_lock->range) {
      locked = {range->lowest.value, range->highest.value};
    }
  }
  json["locked_clocks_mhz"] = std::move(locked);
  return json;
}

bool runs_within(const node::GpuReading& reading, const ClockRange& range) {
  return !reading.graphics_clock ||
         (range.lowest <= *reading.graphics_clock && *reading.graphics_clock <= range.highest);
}

std::string name_of_gpu(int gpu) {
  return "GPU " + std::to_string(gpu);
}

/// Adds the GPU's name to messages without it.
Error about(int gpu, Error error) {
  const std::string name = name_of_gpu(gpu);
  for (Diagnostic& diagnostic : error.diagnostics) {
    const std::size_t at = diagnostic.message.find(name);
    const std::size_t end = at == std::string::npos ? 0 : at + name.size();
    const bool named =
        at != std::string::npos && (end == diagnostic.message.size() ||
                                    diagnostic.message[end] < '0' || diagnostic.message[end] > '9');
    if (!named) diagnostic.message = name + ": " + diagnostic.message;
  }
  return error;
}

}  // namespace

Result<node::GpuReading> read_when_switched(const ReadGpu& read,
                                            const std::optional<ClockRange>& range,
                                            const node::GpuReading& before) {
  Clock& clock = system_clock();
  const Instant until = clock.now() + kLongestSwitch;
  while (true) {
    Result<node::GpuReading> now = read();
    if (!now.ok() || clock.now() >= until) return now;
    if (range && runs_within(*now, *range)) return now;
    if (!range) {
      const bool was_locked = before.graphics_lock && before.graphics_lock->range;
      if (!was_locked || !runs_within(*now, *before.graphics_lock->range)) return now;
    }
    clock.sleep_until(clock.now() + kBetweenReadings);
  }
}

void SettingReport::note(const std::string& text) {
  text_ += text + "\n";
  notes_.push_back(text);
}

void SettingReport::add(int gpu, const std::string& what, const node::GpuReading& before,
                        const node::GpuReading& now, const std::optional<ClockRange>& range,
                        const Json& extra) {
  text_ += name_of_gpu(gpu) + ": " + what + "\n";
  say("before: " + state_text(before));
  say("now:    " + state_text(now));
  Json entry{
      {"gpu", gpu}, {"what", what}, {"before", state_json(before)}, {"now", state_json(now)}};
  if (range) {
    const bool in_force = runs_within(now, *range);
    entry["in_force"] = in_force;
    if (!in_force) {
      say(node::text_of(*range) + " was requested, but the GPU still runs at " +
          node::text_of(*now.graphics_clock) +
          ": an idle GPU may change when it gets work; a hot or limited GPU stays below this "
          "clock");
    }
  }
  if (!extra.is_null()) entry.update(extra);
  gpus_.push_back(std::move(entry));
}

void SettingReport::add_nothing(int gpu, const std::string& what, const std::string& why) {
  text_ += name_of_gpu(gpu) + ": " + what + why + "\n";
  gpus_.push_back({{"gpu", gpu}, {"what", what}});
}

void SettingReport::add_failure(int gpu, Error error) {
  error = about(gpu, std::move(error));
  text_ += "error: " + error.text() + "\n";
  gpus_.push_back(
      {{"gpu", gpu}, {"error", {{"code", name_of(error.code)}, {"message", error.text()}}}});
  failures_.emplace(gpu, std::move(error));
}

Result<Outcome> SettingReport::outcome() const {
  if (gpus_.size() == 1 && failures_.size() == 1) return failures_.begin()->second;
  Outcome outcome;
  outcome.text = text_;
  if (failures_.size() < gpus_.size()) outcome.text += last_;
  if (!failures_.empty()) {
    outcome.status = exit_status(failures_.begin()->second.code);
    outcome.text += std::to_string(failures_.size()) + " of " + std::to_string(gpus_.size()) +
                    " GPUs failed" +
                    (failures_.size() < gpus_.size() ? "; the others are reported above\n" : "\n");
  }
  Json document{{"gpus", gpus_}};
  if (!notes_.empty()) document["notes"] = notes_;
  outcome.json = json_text(document);
  return outcome;
}

namespace {

node::GpuReading read_directly(Gpu& gpu) {
  node::GpuReading reading;
  reading.power_limit = value_of(gpu.power_limit());
  reading.enforced_power_limit = value_of(gpu.enforced_power_limit());
  reading.graphics_clock = value_of(gpu.clock(ClockDomain::kGraphics));
  const auto lock = gpu.locked_clocks(ClockDomain::kGraphics);
  if (lock.ok()) reading.graphics_lock = node::ClockLock{*lock};
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
    // NVML does not report the lock, but this process knows its own request.
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
    report.close_with("warning: this is not restored automatically; undo it with: " +
                      undo_command(arguments, wanted));
  }
  return report.outcome();
}

}  // namespace

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
        "--simulate needs --direct: the agent has its own devices (harpe agent --simulate)");
  }
  if (!wanted.reset && arguments.duration.value <= 0) {
    return Error::invalid("--for must be longer than 0");
  }
  return set_through_agent(arguments, wanted);
}

}  // namespace harpe::command
