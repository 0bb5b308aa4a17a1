#pragma once
/// \file
/// One iteration of an emulated cluster: pipelines that run side by side and wait for the slowest.
///
///     T = longest makespan of a pipeline + overhead
///     E = sum over pipelines and stages of
///         GPUs of the stage x power factor of their nodes x (effective energy + blocking power x
///         T)
///
/// as Perseus counts it (SOSP'24, section 4). A GPU that waits for its neighbours, the slowest
/// pipeline or the overhead draws its blocking power.
///
/// Without noise an iteration depends on plans and slowdowns only: each pair of them is run once
/// and its result is kept, and later iterations take O(pipelines x stages). With noise every
/// pipeline is run.
///
/// Not thread-safe; `run` shares its work among the threads of `PipelineWorkers`.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/lab/emulation/emulated_pipeline.h"

namespace harpe::lab {

/// Sizes of a cluster, and the differences between its GPUs.
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
  /// all calls have returned. Empty: all items are run in this thread.
  std::function<void(std::size_t items, const Work& work)> each = {};
};

/// Time and energy of an iteration, all GPUs together.
struct ClusterIteration {
  Seconds time{0};
  Joules energy{0};
};

class EmulatedCluster {
 public:
  /// Fails if a number of the shape is out of its range.
  static Result<EmulatedCluster> make(const ClusterShape& shape, EmulatedPipeline pipeline);

  Result<std::size_t> add(const plan::TablePlan& plan) { return pipeline_.add(plan); }
  /// See `EmulatedPipeline::throttled`.
  std::size_t throttled(std::size_t plan, Megahertz held_to) {
    return pipeline_.throttled(plan, held_to);
  }
  const ClusterShape& shape() const { return shape_; }
  std::int64_t gpus() const;
  const EmulatedPipeline& pipeline() const { return pipeline_; }
  /// Returns the power of all GPUs while all of them wait.
  Watts waiting_power() const { return waiting_power_; }
  /// Returns the mean power factor of the GPUs of a stage.
  double power_factor(std::size_t pipeline, std::size_t stage) const {
    return factors_[pipeline * pipeline_.stages() + stage];
  }
  /// Returns the power factor of the GPUs of a node.
  double node_factor(std::size_t node) const;
  /// Returns the makespan of a pipeline without noise, and keeps it.
  Seconds makespan(std::size_t plan, double slowdown) { return kept(plan, slowdown).makespan; }
  /// Returns the number of different pipelines that were run and kept.
  std::size_t kept_runs() const { return kept_.size(); }

  /// The state of the cluster between two iterations under one policy.
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
  /// The plan and the slowdown of each pipeline.
  struct Assignment {
    std::span<const std::size_t> plans;
    std::span<const double> slowdowns;
  };

  /// Pipelines whose instructions all take the same time and energy in an iteration.
  struct TracedRun {
    const EmulatedPipeline::Run& run;
    std::span<const std::size_t> pipelines;  ///< rising
    /// For each stage, the sum of the power factors of its GPUs in all of these pipelines.
    std::span<const double> gpus_of_stage;
  };
  /// Visits every pipeline of the iteration that the next `run` will run.
  void trace(std::int64_t number, const Assignment& assignment, const Course& course,
             const std::function<void(const TracedRun&)>& visit) const;

  /// Returns the time and energy of an iteration without noise.
  ClusterIteration nominal(const Assignment& assignment);
  /// Runs an iteration of each course under its plans, all with the same noise, and writes their
  /// times and energies to `totals`.
  /// \param number  of the iteration; determines its noise
  void run(std::int64_t number, std::span<const Assignment> assignments, std::span<Course> courses,
           const PipelineWorkers& workers, std::span<ClusterIteration> totals);

 private:
  struct KeptRun {
    Seconds makespan;
    std::vector<Joules> effective;
  };
  /// The working memory of one worker.
  struct Desk {
    EmulatedPipeline::Noise noise;
    EmulatedPipeline::Run run;
  };
  EmulatedCluster(const ClusterShape& shape, EmulatedPipeline pipeline);
  std::uint64_t draws_of(std::int64_t number, std::size_t pipeline) const;
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

}  // namespace harpe::lab
