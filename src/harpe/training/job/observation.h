#pragma once
/// \file
/// Times and energies of the iterations of an observed job, at the clocks of its GPUs: means over
/// its pipelines and roughly its hundred newest iterations.
///
/// A stage works while its computations run. For the rest of an iteration it waits: for other
/// stages, transfers, other pipelines, data, or the optimizer.
///
/// Not thread-safe. `add` is O(pipelines x work items).

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/device/gpu_model/gpu_model.h"
#include "harpe/plan/policy/plan_table.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/schedule_work.h"
#include "harpe/training/job/iteration_collector.h"
#include "harpe/training/wire/job_shape.h"

namespace harpe::training {

/// The mean iteration of one GPU of a stage.
struct ObservedStage {
  Seconds work{};                           ///< in its computations
  Seconds waiting{};                        ///< the rest
  std::optional<Joules> energy = {};        ///< of the whole iteration
  std::optional<Megahertz> clock = {};      ///< while it computes; nullopt if not reported
  std::optional<Watts> waiting_power = {};  ///< nullopt if not measured, or if it hardly waits
};

/// The saving of plans without slowdown, estimated by a model of the GPUs.
struct EstimatedSaving {
  /// Fractions of the energy of an iteration; nullopt if not known (yet).
  std::optional<double> least = {}, most = {};
  std::string basis = {};  ///< "model of a100-sxm", or the reason why there is no estimate
  friend bool operator==(const EstimatedSaving&, const EstimatedSaving&) = default;
};

struct ObservedJob {
  std::int64_t iterations = 0;  ///< number of observed iterations
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
  /// Returns the mean time of an instruction of a work item (`ScheduleWork::first` + position).
  Seconds time(std::size_t item) const { return {means_.item_time[item]}; }
  /// Returns the mean energy of the instruction on one GPU; nullopt if it was not measured.
  std::optional<Joules> energy(std::size_t item) const;
  ObservedStage stage(int stage) const;
  ObservedJob summary(const EstimatedSaving& saving) const;

  /// The whole state, for the store.
  struct Means {
    std::int64_t iterations = 0;
    std::int64_t measured = 0;  ///< number of iterations with all energies
    double iteration_time = 0;
    std::vector<double> item_time, item_energy;  ///< by work item; joules of one GPU
    std::vector<double> stage_energy;            ///< of one GPU, waiting included
    std::int64_t clocked = 0;                    ///< iterations with the clocks of all stages
    std::vector<double> stage_clock;             ///< MHz
  };
  const Means& means() const { return means_; }
  /// Restores the state. \pre the state is of a job with the same specification
  void restore(Means means) { means_ = std::move(means); }

 private:
  JobShape shape_;
  const plan::ScheduleWork* work_;
  Means means_;
};

// Estimates of the savings of plans in observed training, from a model of its GPUs.
//
// The model predicts the cost of an instruction at clocks that were not measured. Three of its
// parameters are uncertain: the share of work that is bound by memory, the power that does not
// depend on the clock, and the lowest voltage. All three are varied together over the range of
// measured GPUs (docs/gpu-models.md), once so that plans save least and once so that they save
// most. So the saving is a range, never a point.
//
// Plans are compared with the clock that was read from the GPUs, and do not exceed it. If no clock
// was read, GPUs are assumed to run at their highest clock, limited only by power. All functions
// here are pure.

enum class Assumption : unsigned char { kSavesLeast, kSavesMost };
inline constexpr std::array kAssumptions{Assumption::kSavesLeast, Assumption::kSavesMost};

/// Returns the model with its uncertain parameters at one end of their range. The power at the
/// highest clock does not change.
GpuModel assumed(GpuModel gpu, Assumption assumption);

/// A GPU of a stage. A power limit of 0 stands for the model's.
struct ObservedGpu {
  const GpuModel* model = nullptr;
  Watts power_limit{};
};

/// Returns the profile that a sweep from the observed clock down would measure, by the model. At
/// the highest clock, instructions take the observed time. The profile is synthetic.
/// \param gpus  one for each stage
/// \pre an iteration was observed
Profile assumed_profile(const Observation& observed, const plan::ScheduleWork& work,
                        const std::vector<ObservedGpu>& gpus, Assumption assumption);

/// Returns the power of a waiting GPU of each stage: as observed, else by its model.
std::vector<Watts> waiting_powers(const Observation& observed,
                                  const std::vector<ObservedGpu>& gpus);

/// Returns the fraction of an iteration's energy that the plan without slowdown saves. The
/// iteration takes the observed time, or that of its computations if they take longer.
double saving_of(const plan::PlanTable& plans, const Observation& observed);

}  // namespace harpe::training
