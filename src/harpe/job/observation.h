#pragma once
/// \file
/// What the iterations of a job take whose training is only observed, at the clocks that its GPUs
/// have: means over its pipelines and its newest hundred iterations or so.
///
/// Of an iteration, a stage works as long as its computations take; the rest it waits: for its
/// neighbours, for transfers, for other pipelines, for data, for the optimizer.
///
/// Not thread-safe. `add` is O(pipelines x work items).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/job/iteration_collector.h"
#include "harpe/schedule/schedule_work.h"
#include "harpe/wire/job_shape.h"

namespace harpe {

/// An iteration of one stage, of one GPU.
struct ObservedStage {
  Seconds work{};                           ///< in its computations
  Seconds waiting{};                        ///< the rest
  std::optional<Joules> energy = {};        ///< of the whole iteration
  std::optional<Megahertz> clock = {};      ///< while it computes; none: not reported
  std::optional<Watts> waiting_power = {};  ///< none: not measured, or it hardly waits
};

/// What plans would save at no slowdown, by a model of the GPUs.
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
  Observation(JobShape shape, const ScheduleWork& work);

  /// An iteration that some rank has not reported, or not all of its computations, is left out.
  /// \returns  whether it counts
  bool add(const FinishedIteration& iteration);

  std::int64_t iterations() const { return means_.iterations; }
  Seconds iteration_time() const { return {means_.iteration_time}; }
  /// Of one instruction of a work item (`ScheduleWork::first` + position).
  Seconds time(std::size_t item) const { return {means_.item_time[item]}; }
  /// The same on one GPU; none: not measured.
  std::optional<Joules> energy(std::size_t item) const;
  ObservedStage stage(int stage) const;
  ObservedJob summary(const EstimatedSaving& saving) const;

  /// All that it knows, to be stored.
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
  /// Of a job with the same specification.
  void restore(Means means) { means_ = std::move(means); }

 private:
  JobShape shape_;
  const ScheduleWork* work_;
  Means means_;
};

}  // namespace harpe
