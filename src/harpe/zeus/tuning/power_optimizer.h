#pragma once
/// \file
/// The clock or power limit of a training's GPUs, chosen from inside of it while it runs.
///
///   auto optimizer = harpe::PowerOptimizer::start(
///       {.optimize = harpe::PowerOptimizerOptions::Optimize::kEnergy, .most_slowdown = 0.03});
///   for (const Batch& batch : batches) {
///     (*optimizer)->on_step_begin();
///     train(batch);
///   }
///   std::puts((*optimizer)->finish().setting.c_str());  // "1605 MHz"
///
/// Settings go through the node's agent under a lease that ends with this process, however it ends.
/// Nothing here stops a training: what goes wrong is said in the report, and training goes on as it
/// was found. An agent that does not answer holds it up once, for two seconds.
///
/// A job of several processes has one in each, all called at the same steps; each speaks for GPUs
/// of its own, and they agree by the job's reductions.
///
/// Thread safety: one thread at a time. A thread of its own renews the lease and ends windows whose
/// energy is known late; it calls no reduction. In a child of `fork` all calls do nothing.

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
  double eta = 0.5;                       ///< kCost: from 0, time alone, to 1, energy alone
  std::optional<double> most_slowdown{};  ///< of a step, a fraction; none: any
  Watts host_power{0};         ///< of the node beside its GPUs, where this process speaks for it
  bool online = false;         ///< no profiling phase; for long jobs of one process
  bool measures_node = false;  ///< CPUs and their memory count as energy
  std::string gpus{};          ///< as `--gpus` of commands; empty: those that this process may use
  /// With `gpus` empty: of these the one at this position, or the only one. None: all of them.
  std::optional<int> local_rank{};
  /// Where what was measured is kept, and used again for the same job and GPUs; empty: nowhere. A
  /// folder keeps a file of each batch size, which tell of one another.
  std::filesystem::path profile{};
  bool writes_profile = true;      ///< false: another process of this node does
  std::string job{};               ///< what the profile holds for
  int batch_size = 1;              ///< likewise
  std::filesystem::path socket{};  ///< of the agent; empty: HARPE_AGENT_SOCKET, then the usual one
};

/// Over all processes of a job, in place; each waits for the slowest. Empty: this process is the
/// whole job.
struct JobReductions {
  std::function<Status(std::span<double>)> sum{}, max{};
};

struct PowerReport {
  std::string setting{};  ///< chosen, or best so far: "1605 MHz", "250 W"; empty: none was measured
  bool decided = false;   ///< it was chosen, and was in force
  std::optional<double> slowdown{};  ///< of a step, a fraction of that at the highest setting
  /// Against the highest setting, profiling included: of this process's GPUs, or of all processes'
  /// as of their last meeting; the half-width of the 95 % interval; and what it was saved of.
  Joules saved{}, error{}, at_highest{};
  std::string why_nothing_was_set{};  ///< empty: settings were set
  std::string failure{};              ///< why it ended early; empty: it did not
  std::string json{};                 ///< all of it: the member "optimize" of `harpe run`'s report
};

class PowerOptimizer {
 public:
  /// Fails, in this process, for options that are wrong or a profile that cannot be read. Without
  /// GPUs or an agent it measures what it can, and the report says why no more.
  static Result<std::unique_ptr<PowerOptimizer>> start(const PowerOptimizerOptions& options,
                                                       JobReductions reductions = {});
  ~PowerOptimizer();

  /// A training step begins. \returns  whether settings are still tried: work that was only put
  /// into a GPU's queue is best waited for before the next step then, so that steps are those of
  /// the GPU
  bool on_step_begin();
  /// What follows, such as a validation, is no step.
  void on_epoch_end();
  /// Training has ended: restores what was found. Waits a second or so for the last energy. Tells
  /// the other processes nothing. Again: the same report.
  const PowerReport& finish();

 private:
  struct State;
  explicit PowerOptimizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace harpe
