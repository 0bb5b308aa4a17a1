#pragma once
/// \file
/// Optimizer of the clock or power limit of a training's GPUs. It runs inside the training's
/// process while the training runs.
///
///   auto optimizer = harpe::PowerOptimizer::start(
///       {.optimize = harpe::PowerOptimizerOptions::Optimize::kEnergy, .most_slowdown = 0.03});
///   for (const Batch& batch : batches) {
///     (*optimizer)->on_step_begin();
///     train(batch);
///   }
///   std::puts((*optimizer)->finish().setting.c_str());  // "1605 MHz"
///
/// Settings are set through the node's agent under a lease that ends with this process, however it
/// ends. An error never stops the training: the report contains it, and nothing more is set. An
/// agent that does not respond delays the training at most once, by up to 10 s.
///
/// A job of several processes has one optimizer in each process, all called at the same steps. Each
/// optimizer controls its own GPUs, and they agree through the job's reductions.
///
/// Thread safety: one thread at a time. A background thread renews the lease and ends windows whose
/// energy is known late; it calls no reduction. In a child of `fork` no call has an effect.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe {

struct PowerOptimizerOptions {
  enum class Optimize : unsigned char {
    kEnergy,
    kTime,
    kCost,  ///< eta * energy + (1 - eta) * the GPUs' highest power * time
  };
  Optimize optimize = Optimize::kEnergy;
  double eta = 0.5;                       ///< kCost: from 0 (time alone) to 1 (energy alone)
  std::optional<double> most_slowdown{};  ///< of a step, as a fraction; nullopt: unlimited
  Watts host_power{0};         ///< of the node without its GPUs; 0 if another process counts it
  bool measures_node = false;  ///< CPUs and their memory count as energy
  std::string gpus{};          ///< as `--gpus` of commands; empty: all that this process may use
  /// If `gpus` is empty: position of the only GPU to use among those that this process may use.
  /// Ignored if there is just one. Nullopt: all of them.
  std::optional<int> local_rank{};
  /// File or folder that keeps the measurements for later runs of the same job on such GPUs; empty:
  /// none. A folder holds one file per batch size, and the sizes learn from each other.
  std::filesystem::path profile{};
  bool writes_profile = true;      ///< false if another process of this node writes it
  std::string job{};               ///< job that the profile is valid for
  int batch_size = 1;              ///< batch size that the profile is valid for
  std::filesystem::path socket{};  ///< of the agent; empty: HARPE_AGENT_SOCKET, then the default
};

/// Reductions over all processes of a job, in place. Each call waits for the slowest process.
/// Empty: this process is the whole job.
struct JobReductions {
  std::function<Status(std::span<double>)> sum{}, max{};
};

struct PowerReport {
  std::string setting{};  ///< chosen, or best so far: "1605 MHz", "250 W"; empty: none measured
  bool decided = false;   ///< true if the setting was chosen and put in force
  /// Slowdown of a step, as a fraction of its time at the highest setting.
  std::optional<double> slowdown{};
  /// Joules saved against the highest setting, profiling included; half-width of their 95 %
  /// interval; joules at the highest setting. Of all processes as of their last meeting, or of this
  /// process's GPUs if they have not met.
  Joules saved{}, error{}, at_highest{};
  std::string why_nothing_was_set{};  ///< empty if settings were set
  std::string failure{};              ///< why tuning ended early; empty if it did not
  /// The whole report: the member "optimize" of `harpe run`'s report.
  std::string json{};
};

class PowerOptimizer {
 public:
  /// Fails, in this process only, if an option is wrong or the profile cannot be read. Without GPUs
  /// or an agent, it measures what it can, and the report gives the reason.
  static Result<std::unique_ptr<PowerOptimizer>> start(const PowerOptimizerOptions& options,
                                                       JobReductions reductions = {});
  ~PowerOptimizer();

  /// Reports the start of a training step. Returns true while settings are still tried. Then the
  /// caller should wait for the work in the GPU's queue before the next step, so that the
  /// measured times of steps are the GPU's.
  bool on_step_begin();
  /// Reports the end of an epoch: work until the next step, such as a validation, is not a step.
  void on_epoch_end();
  /// Reports the end of training and restores the settings that were in force before. Waits about a
  /// second for the last energy. Does not notify other processes. Later calls return this report.
  const PowerReport& finish();

 private:
  struct State;
  explicit PowerOptimizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace harpe
