#pragma once
/// \file
/// Emulated training in simulated time, as seen by its server: ranks register, run by their
/// assignments and report every iteration, on GPUs with known true costs.
///
///   EmulatedTraining training(spec, *read_profile("profile.csv"), {.seed = 1});
///   training.slow[{1, 0}] = 1.3;  // the first stage of the second pipeline
///   for (const RankCoordinates rank : training.places()) registered(training.registration(rank));
///   for (const IterationReport& report : training.iterate()) {
///     training.take(report.coordinates, response_to(report).assignments);
///   }
///   std::printf("%g s\n", training.last().time.value);
///
/// For tests, benchmarks and experiments. Independent of the server.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harpe/training/emulated_training/emulated_machines.h"

namespace harpe::training {

class EmulatedTraining : public EmulatedMachines {
 public:
  EmulatedTraining(const JobSpec& spec, const Profile& truth, const Options& options);

  std::string session(RankCoordinates rank) const {
    return run_ + "-" + std::to_string(spec().shape.index(rank));
  }
  RankRegistration registration(RankCoordinates rank) const;
  /// Delivers assignments to a rank.
  void take(RankCoordinates rank, std::vector<StageAssignment> assignments);

  /// Runs one iteration of all pipelines.
  /// \returns  a report of each rank, in the random order in which they arrive
  std::vector<IterationReport> iterate();
  /// Restarts training at this iteration, with other processes.
  void start_again(const std::string& run, std::int64_t iteration);
  /// Advances time without training.
  void run_for(Seconds time) { now_ += time; }

  Seconds now() const { return now_; }  ///< since 1970
  std::int64_t next_iteration() const { return iteration_; }
  const std::vector<Iteration>& iterations() const { return iterations_; }
  const Iteration& last() const { return iterations_.back(); }

 private:
  const StageAssignment* in_force(RankCoordinates rank) const;

  std::string run_ = "first";
  std::int64_t iteration_ = 0;
  Seconds now_{1.8e9};
  std::vector<std::map<std::uint64_t, StageAssignment>> books_;  ///< of each rank, by version
  std::vector<Iteration> iterations_;
};

}  // namespace harpe::training
