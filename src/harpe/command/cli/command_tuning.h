#pragma once
/// \file
/// `harpe run --optimize`: the setting of a command's GPUs, chosen while it runs.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harpe/device/measure/energy_monitor.h"
#include "harpe/zeus/power_limit/selector.h"
#include "harpe/zeus/tuning/job_tuning.h"

namespace CLI {
class App;
}  // namespace CLI

namespace harpe {

struct TuningArguments {
  std::optional<Selector::Kind> what;   ///< --optimize; none: nothing is tuned
  std::optional<double> eta;            ///< --eta
  std::optional<double> most_slowdown;  ///< --max-slowdown, a factor
  bool online = false;
  bool measures_node = false;  ///< --host-power measured
  Watts host_power{0};
  std::string profile, job, socket;
  int batch_size = 1;
};

/// Adds `--optimize` and the options that go with it.
void add_tuning_options(CLI::App& app, TuningArguments& arguments);

/// Of one command, in this order: `prepare`, `start`, `finish`. Not thread-safe.
class CommandTuning {
 public:
  /// Checks the arguments, reads the profile, makes the file of steps and names it in this
  /// process's environment: before there are threads. Nothing to be tuned: null.
  static Result<std::unique_ptr<CommandTuning>> prepare(const TuningArguments& arguments,
                                                        const std::string& command);
  ~CommandTuning();

  /// The command is about to begin.
  /// \param monitor  of the GPUs; null: they did not answer. Used until `finish`
  void start(EnergyMonitor* monitor);
  /// The command has ended; all is restored then, and the profile written.
  TuningReport finish();

 private:
  struct State;
  explicit CommandTuning(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace harpe
