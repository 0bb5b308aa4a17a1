#pragma once
/// \file
/// What tuning a job is beside its steps: which of its GPUs' settings there are, who sets them and
/// who measures, what an earlier run knew, what is to be said at the end.

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/device/measure/energy_monitor.h"
#include "harpe/node/node_client/lease.h"
#include "harpe/zeus/power_limit/knob.h"
#include "harpe/zeus/power_limit/limit_profile.h"
#include "harpe/zeus/power_limit/selector.h"
#include "harpe/zeus/tuning/tuner.h"

namespace harpe::zeus {

struct FoundGpu {
  node::GpuOffer offer;
  node::GpuReading found;
};

/// Locked graphics clocks. Empty where some GPU does not tell its clocks; of one setting where no
/// lower one is allowed.
Knob clock_knob(std::span<const FoundGpu> gpus);
/// Power limits, likewise.
Knob limit_knob(std::span<const FoundGpu> gpus);

/// A forecast of the setting that a job should have although none may be set: one measurement,
/// extended by the model of power_limit/setting_model.h, which was fitted to other jobs.
struct Advice {
  std::size_t setting = 0;  ///< position in the knob
  double slowdown = 0;      ///< fraction of the highest setting's time
  double saving = 0;        ///< fraction of its joules, of the GPUs alone
};

/// Returns nullopt if no lower setting promises 1 % within the selector's bound.
/// \param highest  measured at the knob's first setting
std::optional<Advice> advise(const Knob& knob, const Measurement& highest,
                             const Selector& selector);

struct JobTuningOptions {
  /// Without GPUs and their highest limit, which are looked up. Its host power is that of what this
  /// process speaks for: processes of a job add theirs up.
  Selector selector{};
  bool online = false;
  bool measures_node = false;  ///< CPUs and their memory count as energy
  /// Where what was measured is kept, and found again for the same job and GPUs; empty: nowhere. A
  /// folder (also one that its last slash names) keeps a file of each batch size, and what was
  /// measured with others says which settings are worth trying.
  std::filesystem::path profile{};
  std::filesystem::path socket{};  ///< of the agent; empty: HARPE_AGENT_SOCKET, then the usual one
  std::string lease = "harpe";     ///< its name, for people
  std::string job{};               ///< what the profile holds for
  int batch_size = 1;              ///< likewise
  /// Longest time for a request to the agent. An agent that is gone refuses at once. An agent whose
  /// disk is busy answers late, because it stores the state before each change.
  Seconds patience{10};
  bool writes_profile = true;  ///< false: another process of this node does
};

/// What is to be said at the end.
struct TuningReport {
  Selector selector{};
  bool online = false, measures_node = false;
  TuningResult result{};
  std::uint64_t ignored_lines = 0;    ///< of a file of steps
  std::uint64_t refused_lines = 0;    ///< of it, faster than steps can be
  std::string why_nothing_was_set{};  ///< empty: settings were set
  Knob could_be{};                    ///< what could be set with an agent that allows it
  std::optional<Advice> advice{};     ///< among `could_be`
  std::vector<std::string> notes{};   ///< about the profile, and why settings were tried no more
};

/// In this order: `make`, `start`, `finish`. Not thread-safe.
class JobTuning {
 public:
  /// Checks the options and reads the profile.
  static Result<std::unique_ptr<JobTuning>> make(JobTuningOptions options);
  ~JobTuning();

  /// The job is about to begin. What goes wrong here is said in the report, and the job measured as
  /// it is, where that is possible.
  /// \param monitor  of the GPUs; null: they did not answer. Used until `finish`
  /// \param peers    the job's other processes, which all call this; null: there are none. Used
  ///                 until `finish`
  void start(EnergyMonitor* monitor, Clock& clock, Peers* peers = nullptr);
  /// Of the job's steps; null: nothing is measured, and the report says why.
  Tuner* tuner() { return tuner_.get(); }
  /// There is one where there is a tuner.
  KnobSetter& setter() { return *setter_; }
  /// The job has ended and the setter has restored what was found: writes the profile.
  TuningReport finish();

 private:
  explicit JobTuning(JobTuningOptions options);
  void look_at_gpus(EnergyMonitor& monitor);
  void open_setter(EnergyMonitor& monitor, Clock& clock);
  Status agree_on_objective(Peers& peers);
  void take_known(TunerOptions& options);
  void advise_where_nothing_is_set();
  void write_profile();

  const JobTuningOptions options_;
  std::vector<LimitProfile> profiles_;  ///< as they were found
  ProfileKey key_;
  TuningReport report_;
  std::unique_ptr<KnobSetter> setter_;
  std::unique_ptr<WindowMeter> meter_;
  std::unique_ptr<Tuner> tuner_;
};

}  // namespace harpe::zeus
