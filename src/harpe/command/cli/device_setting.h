#pragma once
/// \file
/// Setting GPUs from the command line: through the agent, under a lease that outlives the command,
/// or directly. Shared by `harpe clock` and `harpe limit`.

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "harpe/command/cli/device_options.h"
#include "harpe/command/command/command.h"
#include "harpe/command/command/json_output.h"
#include "harpe/node/node_client/lease.h"

namespace harpe::command {

struct SettingArguments {
  DeviceArguments devices;
  std::string socket;  ///< of the agent; empty: HARPE_AGENT_SOCKET, then the usual one
  Seconds duration{3600};
  bool direct = false;
};

/// What is to be set, or restored.
struct WantedSetting {
  node::Setting setting;  ///< what to apply; for a reset, what `--direct` applies
  bool reset = false;     ///< restore what the command line has set of this control
  std::string command;    ///< "harpe clock"
};

/// Does all GPUs whatever becomes of one, and says what became of each.
Result<Outcome> run_setting(const SettingArguments& arguments, const WantedSetting& wanted);

/// The part of `run_setting` that goes through the agent (agent_setting.cc).
Result<Outcome> set_through_agent(const SettingArguments& arguments, const WantedSetting& wanted);
/// The command that undoes a setting, with the options that were given: "harpe clock reset --gpus
/// 0".
std::string undo_command(const SettingArguments& arguments, const WantedSetting& wanted);

// What `harpe clock` and `harpe limit` say about each GPU, and waiting for a clock to come into
// force. Private to the room.

/// Reads one GPU now, through the agent or directly.
using ReadGpu = std::function<Result<node::GpuReading>()>;

/// A reading after a clock was locked or freed: switching takes a GPU up to some 100 ms, so it is
/// read again until the clock is within `range` (or, without one, has left `before`'s lock), a
/// second at most.
Result<node::GpuReading> read_when_switched(const ReadGpu& read,
                                            const std::optional<ClockRange>& range,
                                            const node::GpuReading& before);

/// Collects the results for each GPU, as text and as JSON.
class SettingReport {
 public:
  void note(const std::string& text);
  /// A GPU that was set or restored. \param range  the clocks asked for; none: no clocks were
  void add(int gpu, const std::string& what, const node::GpuReading& before,
           const node::GpuReading& now, const std::optional<ClockRange>& range = std::nullopt,
           const Json& extra = Json());
  /// A GPU that nothing was done to. \param why  for people alone
  void add_nothing(int gpu, const std::string& what, const std::string& why);
  void add_failure(int gpu, Error error);
  /// Adds a line about the GPU that was added last.
  void say(const std::string& line) { text_ += "  " + line + "\n"; }
  /// A line at the end, if anything was done.
  void close_with(const std::string& line) { last_ += line + "\n"; }

  /// The error where one GPU was asked for and it failed; else all GPUs, and the exit status of the
  /// first that failed.
  Result<Outcome> outcome() const;

 private:
  std::string text_, last_;
  Json notes_ = Json::array();
  Json gpus_ = Json::array();
  std::map<int, Error> failures_;
};

}  // namespace harpe::command
