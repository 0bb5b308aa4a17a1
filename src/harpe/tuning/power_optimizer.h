#pragma once
/// \file
/// The clock or power limit of a training's GPUs, chosen from inside of it while it runs.
///
///   auto optimizer = harpe::PowerOptimizer::start(
///       {.tuning = {.selector = {.kind = harpe::Selector::Kind::kEnergy, .most_slowdown
///       = 1.03}}});
///   for (const Batch& batch : batches) {
///     (*optimizer)->on_step_begin();
///     train(batch);
///   }
///   const harpe::TuningReport report = (*optimizer)->finish();
///
/// Settings go through the node's agent under a lease that ends with this process, however it ends.
/// Nothing here stops a training: what goes wrong is said in the report, and training goes on as it
/// was found. An agent that does not answer holds it up once, for two seconds.
///
/// A job of several processes has one in each, all called at the same steps (peers.h); each speaks
/// for GPUs of its own.
///
/// Thread safety: one thread at a time. A thread of its own renews the lease and ends windows whose
/// energy is known late; it reduces nothing. In a child of `fork` all calls do nothing.

#include <memory>
#include <optional>
#include <string>

#include "harpe/tuning/job_tuning.h"

namespace harpe {

struct PowerOptimizerOptions {
  JobTuningOptions tuning{};
  std::string gpus{};  ///< as `--gpus` of commands; empty: those that this process may use
  /// With `gpus` empty: of these the one at this position, or the only one. None: all of them.
  std::optional<int> local_rank{};
};

class PowerOptimizer {
 public:
  /// Fails, in this process, for options that are wrong or a profile that cannot be read. Without
  /// GPUs or an agent it measures what it can, and the report says why no more.
  /// \param peers  the job's other processes; null: there are none
  static Result<std::unique_ptr<PowerOptimizer>> start(PowerOptimizerOptions options,
                                                       std::unique_ptr<Peers> peers = nullptr);
  ~PowerOptimizer();

  /// A training step begins. \returns  whether settings are still tried: work that was only put
  /// into a GPU's queue is best waited for before the next step then, so that steps are those of
  /// the GPU
  bool on_step_begin();
  /// What follows, such as a validation, is no step.
  void on_epoch_end();
  /// Training has ended: restores what was found. Waits a second or so for the last energy. Tells
  /// no peers. Again: the same report.
  const TuningReport& finish();

 private:
  struct State;
  explicit PowerOptimizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace harpe
