#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <utility>
#include <vector>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/device_setting.h"
#include "harpe/command/cli/shell_words.h"
#include "harpe/device/hw/gpu_choice.h"
#include "harpe/node/node_client/agent_client.h"
#include "harpe/node/node_client/lease.h"

namespace harpe::command {
namespace {

/// The name by which a later command finds the lease of an earlier one.
constexpr const char* kLeaseName = "harpe command line";

/// Returns the name of a user; empty if the system has none.
std::string user_name(std::int64_t uid) {
  std::vector<char> buffer(1 << 12);
  passwd entry{};
  passwd* found = nullptr;
  while (::getpwuid_r(static_cast<uid_t>(uid), &entry, buffer.data(), buffer.size(), &found) ==
             ERANGE &&
         buffer.size() < (1 << 22)) {
    buffer.resize(buffer.size() * 2);
  }
  return found == nullptr ? std::string() : found->pw_name;
}

/// Returns text such as "alice (uid 1000), pid 4242, which has ended ('train.py')".
std::string holder_text(const node::Lease& holder) {
  std::string text = "a token's holder";
  if (holder.uid >= 0) {
    const std::string uid = "uid " + std::to_string(holder.uid);
    const std::string name = user_name(holder.uid);
    text = name.empty() ? uid : name + " (" + uid + ")";
  }
  if (holder.pid > 0) {
    text += ", pid " + std::to_string(holder.pid);
    const bool ended = ::kill(static_cast<pid_t>(holder.pid), 0) != 0 && errno == ESRCH;
    if (ended) text += ", which has ended";
  }
  return text + (holder.name.empty() ? "" : " (" + in_quotes(holder.name) + ")");
}

/// Setter of one control through the agent. Each control of a GPU has its own lease, so that one
/// setting neither shortens nor ends another.
class AgentSetting {
 public:
  AgentSetting(node::AgentClient& agent, const SettingArguments& arguments,
               const WantedSetting& wanted, SettingReport& report)
      : agent_(agent),
        arguments_(arguments),
        wanted_(wanted),
        report_(report),
        controls_{node::control_of(wanted.setting)},
        is_clock_(controls_.has(node::Control::kClocks)) {}

  Status set(int gpu);
  Status reset(int gpu);
  /// Returns true if anything was set: false after a dry run, and if all GPUs failed.
  bool has_set() const { return has_set_; }

 private:
  Result<std::optional<node::Lease>> own_lease(int gpu);
  Status say_why_there_is_nothing(int gpu);
  Result<std::optional<Error>> why_held(int gpu);
  Result<node::GpuReading> read_after(int gpu, const std::optional<ClockRange>& range,
                                      const node::GpuReading& before) {
    const auto read = [&] { return agent_.read(gpu); };
    return is_clock_ ? read_when_switched(read, range, before) : read();
  }

  node::AgentClient& agent_;
  const SettingArguments& arguments_;
  const WantedSetting& wanted_;
  SettingReport& report_;
  const node::Controls controls_;
  const bool is_clock_;
  bool has_set_ = false;
};

Result<std::optional<node::Lease>> AgentSetting::own_lease(int gpu) {
  std::vector<node::Lease> leases = HARPE_TRY(agent_.leases());
  for (node::Lease& lease : leases) {
    if (lease.name == kLeaseName && !lease.id.empty() && lease.gpus == std::vector<int>{gpu} &&
        lease.controls == controls_ && lease.uid == static_cast<std::int64_t>(::geteuid())) {
      return std::optional(std::move(lease));
    }
  }
  return std::optional<node::Lease>();
}

Status AgentSetting::set(int gpu) {
  const node::GpuReading before = HARPE_TRY(agent_.read(gpu));
  const std::optional<node::Lease> earlier = HARPE_TRY(own_lease(gpu));
  std::string lease;
  if (earlier) {
    lease = earlier->id;
  } else {
    const Result<node::Lease> taken = agent_.take({.gpus = {gpu},
                                                   .duration = arguments_.duration,
                                                   .ends_with_process = false,
                                                   .name = kLeaseName,
                                                   .controls = controls_});
    if (!taken.ok()) {
      if (taken.error().code != ErrorCode::kConflict) return taken.error();
      // The agent reports user ids, as it must not wait for a lookup of names; this command may.
      Result<std::optional<Error>> held = why_held(gpu);
      if (held.ok() && *held) return std::move(held->value());
      return taken.error();
    }
    lease = taken->id;
  }
  const Result<node::Applied> applied = agent_.apply(lease, gpu, wanted_.setting);
  if (!applied.ok()) {
    // Nothing was set under the new lease, so no client should have to wait for its end.
    if (!earlier) static_cast<void>(agent_.release(lease).ok());
    return applied.error();
  }
  if (applied->dry_run) {
    if (!earlier) static_cast<void>(agent_.release(lease).ok());
    report_.add_nothing(gpu, applied->text, "; dry run of the agent: nothing is set");
    return ok_status();
  }
  has_set_ = true;
  // Renewed only after success: a refused setting does not extend the earlier one.
  if (earlier) {
    HARPE_TRY(agent_.renew(lease, arguments_.duration));
  }
  std::optional<ClockRange> range;
  if (is_clock_) range = applied->clocks.value_or(wanted_.setting.clocks);
  const node::GpuReading now = HARPE_TRY(read_after(gpu, range, before));
  // The policy may allow less time than requested.
  const std::optional<node::Lease> granted = HARPE_TRY(own_lease(gpu));
  Seconds lasts = granted ? granted->expires_in : Seconds{0};
  const bool cut = lasts < arguments_.duration - 5_s;
  if (!cut) lasts = arguments_.duration;
  report_.add(gpu, applied->text, before, now, range,
              {{"honoured", applied->honoured}, {"restored_in_s", lasts.value}});
  report_.say("restored in " + duration_text(cut ? Seconds{std::ceil(lasts.value)} : lasts) +
              (cut ? ": the policy does not allow a longer time (max_lease_s)" : ""));
  return ok_status();
}

Status AgentSetting::reset(int gpu) {
  const std::optional<node::Lease> lease = HARPE_TRY(own_lease(gpu));
  if (!lease) return say_why_there_is_nothing(gpu);
  const Result<node::GpuReading> before = agent_.read(gpu);
  HARPE_TRY(agent_.release(lease->id));
  if (!before.ok()) return before.error();
  const node::GpuReading now = HARPE_TRY(read_after(gpu, std::nullopt, *before));
  report_.add(gpu, "the " + node::text_of(controls_) + " set from the command line restored",
              *before, now);
  return ok_status();
}

/// Returns which lease prevents setting this control of the GPU, for how long, and how to end it
/// sooner; nullopt if there is none.
Result<std::optional<Error>> AgentSetting::why_held(int gpu) {
  const std::vector<node::Lease> holders = HARPE_TRY(agent_.holders(gpu));
  const auto self = static_cast<std::int64_t>(::geteuid());
  for (const node::Lease& holder : holders) {
    if (holder.uid == self && !holder.controls.overlaps(controls_)) continue;
    std::string text =
        "its " + node::text_of(holder.controls.overlaps(controls_) ? controls_ : holder.controls);
    text = holder.controls == node::Controls() ? "it" : text;
    text = "GPU " + std::to_string(gpu) + ": " + holder_text(holder) + " holds " + text +
           " for another " + duration_text({std::ceil(holder.expires_in.value)});
    const bool own = holder.uid == self;
    if (own) text += "; this is your user";
    if (own || self == 0) {
      const std::vector<node::Lease> leases = HARPE_TRY(agent_.leases());
      const auto same = std::ranges::find_if(leases, [&](const node::Lease& lease) {
        return lease.uid == holder.uid && lease.pid == holder.pid && lease.name == holder.name &&
               lease.controls == holder.controls && std::ranges::count(lease.gpus, gpu) != 0;
      });
      if (same != leases.end()) {
        text += ": end it with: curl " +
                shell_text({"--unix-socket", node::agent_socket(arguments_.socket), "-X", "DELETE",
                            "http://localhost/v1/leases/" + same->id});
      }
    } else {
      text += ": wait, or ask the holder or root to end it";
    }
    return std::optional(Error::of(ErrorCode::kConflict, text));
  }
  return std::optional<Error>();
}

Status AgentSetting::say_why_there_is_nothing(int gpu) {
  const Result<node::GpuReading> reading = agent_.read(gpu);
  // The error of a lost GPU includes what is still to be restored.
  if (!reading.ok()) return reading.error();
  if (!reading->restore_pending.empty()) {
    return Error::of(ErrorCode::kUnavailable, reading->restore_pending);
  }
  std::optional<Error> held = HARPE_TRY(why_held(gpu));
  if (held) return std::move(held.value());
  SettingArguments there = arguments_;
  there.direct = true;
  there.devices.gpus = std::to_string(gpu);
  there.socket.clear();
  report_.add_nothing(
      gpu,
      "no setting that you made from the command line is in force for its " +
          node::text_of(controls_),
      ". As root, remove settings made without the agent with: " + undo_command(there, wanted_));
  return ok_status();
}

}  // namespace

Result<Outcome> set_through_agent(const SettingArguments& arguments, const WantedSetting& wanted) {
  Result<node::AgentClient> agent =
      node::AgentClient::connect(node::agent_socket(arguments.socket));
  if (!agent.ok()) {
    Error error = agent.error();
    error.diagnostics.push_back(
        {.message = "start it (sudo systemctl start harpe-agent, or harpe agent --help), name its "
                    "socket with --socket, or as root set the driver itself with --direct"});
    return error;
  }
  const std::vector<GpuIdentity> known = HARPE_TRY(agent->gpus());
  const device::GpuChoice choice = HARPE_TRY(device::choose_gpus(
      arguments.devices.gpus, known, device::VisibilityVariables::of_environment()));
  if (choice.gpus.empty()) return Error::of(ErrorCode::kNotFound, "the agent has no such GPU");
  SettingReport report;
  for (const std::string& note : choice.notes) report.note(note);
  if (!DeviceOptions::of_environment().simulation.empty()) {
    report.note(
        "note: HARPE_SIMULATION has no effect here: the agent has its own GPUs, simulated or not");
  }
  AgentSetting setting(*agent, arguments, wanted, report);
  for (const int gpu : choice.gpus) {
    Status done = wanted.reset ? setting.reset(gpu) : setting.set(gpu);
    if (!done.ok()) report.add_failure(gpu, std::move(done).error());
  }
  if (!wanted.reset && setting.has_set()) {
    report.close_with("restore sooner with: " + undo_command(arguments, wanted));
  }
  return report.outcome();
}

}  // namespace harpe::command
