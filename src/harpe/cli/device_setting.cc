#include "harpe/cli/device_setting.h"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <utility>

#include "harpe/agent/agent_client.h"
#include "harpe/base/text.h"
#include "harpe/cli/agent_options.h"
#include "harpe/cli/json_output.h"
#include "harpe/cli/options.h"
#include "harpe/hw/gpu_choice.h"

namespace harpe {
namespace {

/// By this name a later command finds the lease of an earlier one.
constexpr const char* kLeaseName = "harpe command line";

std::string socket_of(const SettingArguments& arguments) {
  if (!arguments.socket.empty()) return arguments.socket;
  const char* variable = std::getenv("HARPE_AGENT_SOCKET");
  return variable != nullptr && *variable != '\0' ? variable : AgentClient::kDefaultSocket;
}

std::string watts_text(std::optional<Watts> watts) {
  return watts ? shortest(watts->value) + " W" : "unknown";
}

std::string state_text(const GpuReading& reading) {
  return "power limit " + watts_text(reading.enforced_power_limit) + ", graphics clock " +
         (reading.graphics_clock ? std::to_string(reading.graphics_clock->value) + " MHz"
                                 : std::string("unknown"));
}

Json state_json(const GpuReading& reading) {
  Json json;
  json["power_limit_w"] =
      reading.enforced_power_limit ? Json(reading.enforced_power_limit->value) : Json();
  json["graphics_clock_mhz"] =
      reading.graphics_clock ? Json(reading.graphics_clock->value) : Json();
  return json;
}

/// Collects what is said about each GPU, for people and as JSON.
struct Report {
  std::string text;
  Json gpus = Json::array();

  void add(int gpu, const std::string& what, const GpuReading& before, const GpuReading& after,
           const Json& extra) {
    text += "GPU " + std::to_string(gpu) + ": " + what + "\n";
    text += "  before: " + state_text(before) + "\n";
    text += "  now:    " + state_text(after) + "\n";
    Json entry{
        {"gpu", gpu}, {"what", what}, {"before", state_json(before)}, {"now", state_json(after)}};
    entry.update(extra);
    gpus.push_back(std::move(entry));
  }
  Outcome outcome() const { return {.text = text, .json = json_text({{"gpus", gpus}})}; }
};

Error about(int gpu, Error error) {
  for (Fault& fault : error.faults) {
    fault.message = "GPU " + std::to_string(gpu) + ": " + fault.message;
  }
  return error;
}

// --- Through the agent --------------------------------------------------------------------------

Result<std::optional<Lease>> own_lease(AgentClient& agent, int gpu) {
  Result<std::vector<Lease>> leases = agent.leases();
  if (!leases.ok()) return std::move(leases).error();
  for (Lease& lease : *leases) {
    if (lease.name == kLeaseName && !lease.id.empty() && lease.gpus == std::vector<int>{gpu} &&
        lease.uid == static_cast<std::int64_t>(::geteuid())) {
      return std::optional(std::move(lease));
    }
  }
  return std::optional<Lease>();
}

Status set_one(AgentClient& agent, int gpu, const SettingArguments& arguments,
               const Setting& setting, Report& report) {
  const Result<GpuReading> before = agent.read(gpu);
  if (!before.ok()) return before.error();
  const Result<std::optional<Lease>> earlier = own_lease(agent, gpu);
  if (!earlier.ok()) return earlier.error();
  std::string lease;
  if (*earlier) {
    lease = (*earlier)->id;
    if (Status renewed = agent.renew(lease, arguments.duration); !renewed.ok()) return renewed;
  } else {
    const Result<Lease> taken = agent.take({.gpus = {gpu},
                                            .duration = arguments.duration,
                                            .ends_with_process = false,
                                            .name = kLeaseName});
    if (!taken.ok()) return taken.error();
    lease = taken->id;
  }
  const Result<Applied> applied = agent.apply(lease, gpu, setting);
  if (!applied.ok()) {
    // Nothing was set under a new lease: nobody should have to wait for its end.
    if (!*earlier) static_cast<void>(agent.release(lease).ok());
    return applied.error();
  }
  const Result<GpuReading> after = agent.read(gpu);
  if (!after.ok()) return after.error();
  // The policy may allow less time than was asked for.
  const Result<std::optional<Lease>> granted = own_lease(agent, gpu);
  if (!granted.ok()) return granted.error();
  Seconds lasts = *granted ? (*granted)->expires_in : Seconds{0};
  const bool cut = lasts < arguments.duration - 5_s;
  if (!cut) lasts = arguments.duration;
  report.add(gpu, applied->text, *before, *after,
             {{"honoured", applied->honoured}, {"put_back_in_s", lasts.value}});
  report.text += "  put back in " + duration_text({std::ceil(lasts.value)}) +
                 (cut ? ": the policy allows no longer (max_lease_s)\n" : "\n");
  return ok_status();
}

Status reset_one(AgentClient& agent, int gpu, const WantedSetting& wanted, Report& report) {
  const Result<std::optional<Lease>> lease = own_lease(agent, gpu);
  if (!lease.ok()) return lease.error();
  if (!*lease) {
    report.text += "GPU " + std::to_string(gpu) +
                   ": nothing that you set from the command line is in force. What somebody left "
                   "behind without the agent, root removes with: " +
                   wanted.reset_hint + "\n";
    report.gpus.push_back({{"gpu", gpu}, {"what", "nothing to put back"}});
    return ok_status();
  }
  const Result<GpuReading> before = agent.read(gpu);
  if (!before.ok()) return before.error();
  if (Status released = agent.release((*lease)->id); !released.ok()) return released;
  const Result<GpuReading> after = agent.read(gpu);
  if (!after.ok()) return after.error();
  report.add(gpu, "everything set from the command line is put back", *before, *after,
             Json::object());
  return ok_status();
}

Result<Outcome> through_agent(const SettingArguments& arguments, const WantedSetting& wanted) {
  Result<AgentClient> agent = AgentClient::connect(socket_of(arguments));
  if (!agent.ok()) {
    Error error = agent.error();
    error.faults.push_back(
        {.message = "start it (systemctl start harpe-agent, or harpe agent --help), name its "
                    "socket with --socket, or as root set the driver itself with --direct"});
    return error;
  }
  const Result<std::vector<GpuIdentity>> known = agent->gpus();
  if (!known.ok()) return known.error();
  const Result<GpuChoice> choice =
      choose_gpus(arguments.devices.gpus, *known, VisibilityVariables::of_environment());
  if (!choice.ok()) return choice.error();
  if (choice->gpus.empty()) return Error::of(ErrorCode::kNotFound, "the agent has no such GPU");
  Report report;
  for (const std::string& note : choice->notes) report.text += note + "\n";
  for (const int gpu : choice->gpus) {
    const Status done = wanted.reset ? reset_one(*agent, gpu, wanted, report)
                                     : set_one(*agent, gpu, arguments, wanted.setting, report);
    if (!done.ok()) return about(gpu, done.error());
  }
  return report.outcome();
}

// --- Directly -----------------------------------------------------------------------------------

GpuReading read_directly(Gpu& gpu) {
  GpuReading reading;
  if (const auto limit = gpu.enforced_power_limit(); limit.ok()) {
    reading.enforced_power_limit = *limit;
  }
  if (const auto clock = gpu.clock(ClockDomain::kGraphics); clock.ok()) {
    reading.graphics_clock = *clock;
  }
  return reading;
}

Status apply_directly(Gpu& gpu, const Setting& setting) {
  switch (setting.kind) {
    case Setting::Kind::kLockClocks:
      return gpu.set_locked_clocks(setting.domain, setting.clocks);
    case Setting::Kind::kResetClocks:
      return gpu.reset_locked_clocks(setting.domain);
    case Setting::Kind::kPowerLimit:
      return gpu.set_power_limit(setting.limit);
    case Setting::Kind::kResetPowerLimit: {
      const Result<PowerLimitRange> range = gpu.power_limit_range();
      if (!range.ok()) return range.error();
      return gpu.set_power_limit(range->factory);
    }
    case Setting::Kind::kPersistenceMode:
      break;
  }
  return gpu.set_persistence_mode(setting.enabled);
}

Result<Outcome> directly(const SettingArguments& arguments, const WantedSetting& wanted) {
  Result<ChosenDevices> chosen = open_chosen_devices(arguments.devices);
  if (!chosen.ok()) return std::move(chosen).error();
  if (chosen->gpus.empty()) {
    return Error::of(ErrorCode::kNotFound, "there is no GPU:\n" + no_gpu_text(chosen->devices));
  }
  Report report;
  for (const std::string& note : chosen->notes) report.text += note + "\n";
  for (const int index : chosen->gpus) {
    Gpu& gpu = *chosen->devices.gpus[static_cast<std::size_t>(index)];
    const GpuReading before = read_directly(gpu);
    if (const Status done = apply_directly(gpu, wanted.setting); !done.ok()) {
      return about(index, done.error());
    }
    report.add(index, wanted.reset ? "reset in the driver" : "set in the driver", before,
               read_directly(gpu), Json::object());
  }
  if (!wanted.reset) {
    report.text += "warning: nothing will put this back; undo it with: " + wanted.reset_hint + "\n";
  }
  return report.outcome();
}

}  // namespace

void add_setting_options(CLI::App& app, SettingArguments& arguments, bool reset) {
  add_device_options(app, arguments.devices);
  add_text(app, "--socket", "PATH",
           "Socket of the agent (default: HARPE_AGENT_SOCKET, then /run/harpe/agent.sock)",
           arguments.socket);
  if (!reset) {
    add_parsed(app, "--for", "DURATION",
               "How long, such as 30min or 8h, before the agent puts back what was there "
               "(default: 1h; at most what its policy allows)",
               arguments.duration, parse_duration);
  }
  app.add_flag("--direct", arguments.direct,
               reset ? "Reset the driver itself, without the agent (root)"
                     : "Set the driver itself, without the agent (root): nothing puts it back");
}

Result<Outcome> run_setting(const SettingArguments& arguments, const WantedSetting& wanted) {
  if (arguments.direct) return directly(arguments, wanted);
  if (!arguments.devices.simulation.empty()) {
    return Error::invalid(
        "--simulate is for --direct: the agent has its own devices (harpe agent --simulate)");
  }
  if (!wanted.reset && arguments.duration.value <= 0) {
    return Error::invalid("--for must be longer than nothing");
  }
  return through_agent(arguments, wanted);
}

}  // namespace harpe
