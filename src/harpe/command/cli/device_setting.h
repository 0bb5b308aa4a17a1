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
  std::string socket;  ///< of the agent; empty: HARPE_AGENT_SOCKET, then the default
  Seconds duration{3600};
  bool direct = false;
};

/// A setting to apply or to restore.
struct WantedSetting {
  node::Setting setting;  ///< to apply; for a reset, the setting that `--direct` applies
  bool reset = false;     ///< restore the values that the command line has set for this control
  std::string command;    ///< "harpe clock"
};

/// Sets all GPUs, even if one fails, and reports the result of each.
Result<Outcome> run_setting(const SettingArguments& arguments, const WantedSetting& wanted);

/// The part of `run_setting` that goes through the agent (agent_setting.cc).
Result<Outcome> set_through_agent(const SettingArguments& arguments, const WantedSetting& wanted);
/// Returns the command that undoes a setting, with the options that were given: "harpe clock reset
/// --gpus 0".
std::string undo_command(const SettingArguments& arguments, const WantedSetting& wanted);

// Texts of `harpe clock` and `harpe limit` about each GPU, and the wait for a new clock. Private to
// the room.

/// Reads one GPU now, through the agent or directly.
using ReadGpu = std::function<Result<node::GpuReading>()>;

/// Returns a reading after a clock was locked or reset. A GPU takes up to about 100 ms to switch,
/// so it is read repeatedly until its clock is within `range` (without a range: has left the lock
/// of `before`), for at most a second.
Result<node::GpuReading> read_when_switched(const ReadGpu& read,
                                            const std::optional<ClockRange>& range,
                                            const node::GpuReading& before);

/// The results of each GPU, as text and as JSON.
class SettingReport {
 public:
  void note(const std::string& text);
  /// Adds a GPU that was set or restored.
  /// \param range  requested clocks; nullopt if the clocks were not set
  void add(int gpu, const std::string& what, const node::GpuReading& before,
           const node::GpuReading& now, const std::optional<ClockRange>& range = std::nullopt,
           const Json& extra = Json());
  /// Adds a GPU that was not changed.
  /// \param why  for people only
  void add_nothing(int gpu, const std::string& what, const std::string& why);
  void add_failure(int gpu, Error error);
  /// Adds a line about the GPU that was added last.
  void say(const std::string& line) { text_ += "  " + line + "\n"; }
  /// Sets a line to add at the end if any GPU was changed.
  void close_with(const std::string& line) { last_ += line + "\n"; }

  /// Returns the error if only one GPU was requested and it failed; otherwise the results of all
  /// GPUs, with the exit status of the first that failed.
  Result<Outcome> outcome() const;

 private:
  std::string text_, last_;
  Json notes_ = Json::array();
  Json gpus_ = Json::array();
  std::map<int, Error> failures_;
};

}  // namespace harpe::command
