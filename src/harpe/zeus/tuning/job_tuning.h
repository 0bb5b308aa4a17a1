#pragma once
/// \file
/// The parts of tuning a job that do not depend on its steps: the settings that its GPUs offer, the
/// setter and the meter, the profile of earlier runs, and the final report.

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

/// Returns the locked graphics clocks. Empty if a GPU does not report its clocks; one setting if no
/// lower clock is allowed.
Knob clock_knob(std::span<const FoundGpu> gpus);
/// Returns the power limits. Empty if a GPU does not report its limits; one setting if no lower
/// limit is allowed.
Knob limit_knob(std::span<const FoundGpu> gpus);

/// A forecast of the best setting for a job whose GPUs may not be set: from one measurement,
/// extended by the model of power_limit/setting_model.h, which was fitted to other jobs.
struct Advice {
  std::size_t setting = 0;  ///< position in the knob
  double slowdown = 0;      ///< fraction of the highest setting's time
  double saving = 0;        ///< fraction of its joules, of the GPUs alone
};

/// Returns nullopt if no lower setting promises a gain of 1 % within the selector's bound.
/// \param highest  measured at the knob's first setting
std::optional<Advice> advise(const Knob& knob, const Measurement& highest,
                             const Selector& selector);

struct JobTuningOptions {
  /// The number of GPUs and their highest limit are looked up. The host power is the part that this
  /// process accounts for; the processes of a job add their parts up.
  Selector selector{};
  bool measures_node = false;  ///< CPUs and their memory count as energy
  /// File or folder that keeps the measurements, for later runs of the same job on such GPUs;
  /// empty: none is kept. A folder (also a path that ends in a slash) holds one file per batch
  /// size, and the measurements with other batch sizes decide which settings are worth trying.
  std::filesystem::path profile{};
  std::filesystem::path socket{};  ///< of the agent; empty: HARPE_AGENT_SOCKET, then the default
  std::string lease = "harpe";     ///< its name, for people
  std::string job{};               ///< job that the profile is valid for
  int batch_size = 1;              ///< batch size that the profile is valid for
  /// Longest time for a request to the agent. If the agent is not running, requests fail at once.
  /// If its disk is busy, it responds late, because it stores its state before each change.
  Seconds patience{10};
  bool writes_profile = true;  ///< false if another process of this node writes it
};

/// The final report of tuning a job.
struct TuningReport {
  Selector selector{};
  bool measures_node = false;
  TuningResult result{};
  std::uint64_t ignored_lines = 0;    ///< of the step file
  std::uint64_t refused_lines = 0;    ///< of the step file: faster than steps can be
  std::string why_nothing_was_set{};  ///< empty if settings were set
  Knob could_be{};                    ///< settings that an agent could set if its policy allows
  std::optional<Advice> advice{};     ///< among `could_be`
  std::vector<std::string> notes{};   ///< about the profile, and why no more settings were tried
};

/// The tuning of one job. Call `make`, `start` and `finish` in this order. Not thread-safe.
class JobTuning {
 public:
  /// Checks the options and reads the profile.
  static Result<std::unique_ptr<JobTuning>> make(JobTuningOptions options);
  ~JobTuning();

  /// Starts tuning; called just before the job begins. Errors go to the report, and the job is
  /// measured without settings if that is possible.
  /// \param monitor  of the GPUs, used until `finish`; null if they did not respond
  /// \param peers    the job's other processes, which all call this function, used until `finish`;
  ///                 null if there are none
  void start(EnergyMonitor* monitor, Clock& clock, Peers* peers = nullptr);
  /// Returns the reason why this run sets nothing, known after `start`; empty if it sets settings.
  const std::string& why_nothing_is_set() const { return report_.why_nothing_was_set; }
  /// Returns the tuner of the job's steps; null if nothing is measured (the report says why).
  Tuner* tuner() { return tuner_.get(); }
  /// Returns the setter. Must not be called without a tuner.
  KnobSetter& setter() { return *setter_; }
  /// Writes the profile and returns the report. Called after the job has ended and the setter has
  /// restored the earlier settings.
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
  std::vector<LimitProfile> profiles_;  ///< as read by `make`
  ProfileKey key_;
  TuningReport report_;
  std::unique_ptr<KnobSetter> setter_;
  std::unique_ptr<WindowMeter> meter_;
  std::unique_ptr<Tuner> tuner_;
};

}  // namespace harpe::zeus
