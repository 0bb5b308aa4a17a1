#pragma once
/// \file
/// One iteration of an emulated cluster: pipelines side by side that wait for the slowest of them.
///
///     T = longest makespan of a pipeline + overhead
///     E = sum over pipelines and stages of
///         GPUs of the stage x power factor of their nodes x (effective energy + blocking power x
///         T)
///
/// as Perseus counts it (SOSP'24, section 4): a GPU that waits, for its neighbours, the slowest
/// pipeline or the overhead, draws its blocking power.
///
/// Without noise an iteration follows from plans and slowdowns alone: each pair is run once and
/// kept, so that a cluster costs as much as its different pipelines, and each of its iterations
/// O(pipelines x stages). With noise every pipeline runs on its own.
///
/// Not thread-safe, but for what it does itself through `PipelineWorkers`.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/emulation/emulated_pipeline.h"

namespace harpe {

/// Sizes of a cluster, and how its GPUs differ.
struct ClusterShape {
  int pipelines = 1;
  int gpus_per_stage = 1;  ///< tensor ranks, which run in lockstep
  int gpus_per_node = 8;
  /// Seconds after the slowest pipeline that every iteration takes: gradient reduction, optimizer.
  Seconds overhead{0};
  double noise = 0;  ///< relative standard deviation of time and energy of an instruction
  /// Relative standard deviation of power between nodes; measured: 0.7 % over 64 nodes of H100.
  double power_spread = 0;
  std::uint64_t seed = 1;
};

/// Threads that share the pipelines of an iteration. Results do not depend on them.
struct PipelineWorkers {
  using Work = std::function<void(std::size_t worker, std::size_t item)>;
  std::size_t count = 1;
  /// Calls `work` once for each item below `items`, with workers below `count`, and returns when
  /// all calls have returned. Empty: in this thread.
  std::function<void(std::size_t items, const Work& work)> each = {};
};

/// What an iteration takes, all GPUs together.
struct ClusterIteration {
  Seconds time{0};
  Joules energy{0};
};

class EmulatedCluster {
 public:
  /// Fails if a number of the shape is out of its range.
  static Result<EmulatedCluster> make(const ClusterShape& shape, EmulatedPipeline pipeline);

  Result<std::size_t> add(const TablePlan& plan) { return pipeline_.add(plan); }
  const ClusterShape& shape() const { return shape_; }
  std::int64_t gpus() const;
  /// Power of all GPUs when all wait.
  Watts waiting_power() const { return waiting_power_; }
  /// Factor of power of the GPUs of a stage, their mean.
  double power_factor(std::size_t pipeline, std::size_t stage) const {
    return factors_[pipeline * pipeline_.stages() + stage];
  }
  /// Returns the makespan of a pipeline without noise. Kept.
  Seconds makespan(std::size_t plan, double slowdown) { return kept(plan, slowdown).makespan; }
  /// How many different pipelines were run and kept.
  std::size_t kept_runs() const { return kept_.size(); }

  /// A course of iterations under one policy.
  class Course {
   public:
    Course() = default;

   private:
    friend class EmulatedCluster;
    std::vector<EmulatedPipeline::Clocks> clocks_;  ///< of each pipeline
    // The last iteration, if there was no noise.
    std::vector<std::size_t> plans_;
    std::vector<double> slowdowns_;
    ClusterIteration last_;
  };
  /// What each pipeline runs.
  struct Assignment {
    std::span<const std::size_t> plans;
    std::span<const double> slowdowns;
  };

  /// Returns what an iteration takes without noise.
  ClusterIteration nominal(const Assignment& assignment);
  /// Runs an iteration of each course under its plans, all with the same noise, and writes what it
  /// takes to `totals`.
  /// \param number  of the iteration, which its noise depends on
  void run(std::int64_t number, std::span<const Assignment> assignments, std::span<Course> courses,
           const PipelineWorkers& workers, std::span<ClusterIteration> totals);

 private:
  struct KeptRun {
    Seconds makespan;
    std::vector<Joules> effective;
  };
  /// What a worker needs to run a pipeline.
  struct Desk {
    EmulatedPipeline::Noise noise;
    EmulatedPipeline::Run run;
  };
  EmulatedCluster(const ClusterShape& shape, EmulatedPipeline pipeline);
  const KeptRun& kept(std::size_t plan, double slowdown);
  void run_noisy(std::int64_t number, std::span<const Assignment> assignments,
                 std::span<Course> courses, const PipelineWorkers& workers,
                 std::span<ClusterIteration> totals);

  ClusterShape shape_;
  EmulatedPipeline pipeline_;
  std::vector<double> factors_;  ///< of each pipeline and stage
  Watts waiting_power_{0};
  std::map<std::pair<std::size_t, double>, KeptRun> kept_;
  std::vector<Desk> desks_;
  std::vector<Seconds> makespans_;  ///< of each course and pipeline
  std::vector<Joules> computing_;   ///< of each course and pipeline: effective energy, all GPUs
};

}  // namespace harpe
