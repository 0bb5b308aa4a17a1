#pragma once
/// \file
/// Times and energies of the iterations of an observed job, at the clocks that its GPUs have: means
/// over its pipelines and about its hundred newest iterations.
///
/// A stage works while its computations run. For the rest of an iteration it waits: for other
/// stages, transfers, other pipelines, data, or the optimizer.
///
/// Not thread-safe. `add` is O(pipelines x work items).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/plan/schedule/schedule_work.h"
#include "harpe/training/job/iteration_collector.h"
#include "harpe/training/wire/job_shape.h"

namespace harpe::training {

/// The mean iteration of one GPU of a stage.
struct ObservedStage {
  Seconds work{};                           ///< in its computations
  Seconds waiting{};                        ///< the rest
  std::optional<Joules> energy = {};        ///< of the whole iteration
  std::optional<Megahertz> clock = {};      ///< while it computes; none: not reported
  std::optional<Watts> waiting_power = {};  ///< none: not measured, or it hardly waits
};

/// The saving of plans without slowdown, estimated by a model of the GPUs.
struct EstimatedSaving {
  /// Fractions of the energy of an iteration; none: not known, or not yet.
  std::optional<double> least = {}, most = {};
  std::string basis = {};  ///< "model of a100-sxm"; why there is none, where there is none
  friend bool operator==(const EstimatedSaving&, const EstimatedSaving&) = default;
};

struct ObservedJob {
  std::int64_t iterations = 0;  ///< that were observed
  Seconds iteration_time{};
  std::vector<ObservedStage> stages;  ///< empty before the first iteration
  std::optional<int> longest = {};    ///< the stage that works longest
  EstimatedSaving saving;
};

class Observation {
 public:
  Observation(JobShape shape, const plan::ScheduleWork& work);

  /// Adds an iteration. Skips it if a rank has not reported it, or not all of its computations.
  /// \returns  true if it was added
  bool add(const FinishedIteration& iteration);

  std::int64_t iterations() const { return means_.iterations; }
  Seconds iteration_time() const { return {means_.iteration_time}; }
  /// Mean time of an instruction of a work item (`ScheduleWork::first` + position).
  Seconds time(std::size_t item) const { return {means_.item_time[item]}; }
  /// Mean energy of the instruction on one GPU; nullopt if it was not measured.
  std::optional<Joules> energy(std::size_t item) const;
  ObservedStage stage(int stage) const;
  ObservedJob summary(const EstimatedSaving& saving) const;

  /// The whole state, for the store.
  struct Means {
    std::int64_t iterations = 0;
    std::int64_t measured = 0;  ///< of these: with all energies
    double iteration_time = 0;
    std::vector<double> item_time, item_energy;  ///< by work item; joules of one GPU
    std::vector<double> stage_energy;            ///< of one GPU, waiting included
    std::int64_t clocked = 0;                    ///< iterations with the clocks of all stages
    std::vector<double> stage_clock;             ///< MHz
  };
  const Means& means() const { return means_; }
  /// Restores the state. \pre it is of a job with the same specification
  void restore(Means means) { means_ = std::move(means); }

 private:
  JobShape shape_;
  const plan::ScheduleWork* work_;
  Means means_;
};

}  // namespace harpe::training
