#pragma once
/// \file
/// The GPUs of a training job, whose true costs are known: how long its iterations are and what
/// they cost, and what its ranks report of them.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/plan/frontier/stage_replay.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/pipeline.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/training/wire/job_spec.h"
#include "harpe/training/wire/rank_events.h"

namespace harpe::training {

// What a GPU makes of the instructions of its stage in one iteration, by costs that are known.
//
//   StageConditions now{.clock = run_before.clock};
//   const StageRun run = run_stage(schedule, costs, 0, assignment.clocks, now);

/// The clock of a GPU between two instructions.
using GpuClock = plan::SettingState<Megahertz>;

/// Of one GPU in one iteration.
struct StageConditions {
  GpuClock clock;                     ///< before the first instruction
  std::optional<Megahertz> cap = {};  ///< it never runs above, whatever is asked for
  double slowness = 1;                ///< factor on all its times and energies
  Seconds switch_latency{0};          ///< from asking for a clock until it is in force
};

struct StageRun {
  /// What each instruction took, as the stage's list.
  std::vector<OperatingPoint> instructions;
  GpuClock clock;          ///< after the last one
  bool throttled = false;  ///< it ran below a clock that was asked for
};

/// Runs the list of a stage by the engine of an iteration (stage_replay.h), as `predict` does.
/// \param costs   have every computation of the stage; between their clocks see `at_setting`.
///                Fixed-time instructions take the first point, or nothing where there is none
/// \param clocks  as in `StageAssignment`: one for all instructions, or one each; 0 MHz: as it is
StageRun run_stage(const Schedule& schedule, const Profile& costs, int stage,
                   std::span<const Megahertz> clocks, const StageConditions& conditions);

/// The computations of a stage, summed up as its rank reports them.
/// \param points  what each instruction took, as the stage's list
std::vector<InstructionTotals> totals_of(const Schedule& schedule, int stage,
                                         std::span<const OperatingPoint> points);

/// Deterministic by seed. Not for several threads at once.
class EmulatedMachines {
 public:
  struct Options {
    Watts blocking_power{80};
    Seconds overhead{0.05};  ///< of an iteration, outside the pipeline
    double noise = 0.001;    ///< relative, of times and energies reported
    std::uint64_t seed = 1;
    Seconds switch_latency{0};  ///< see `run_stage`
  };
  /// What an iteration was.
  struct Iteration {
    std::int64_t number = 0;
    Seconds time{};
    Joules energy{};  ///< all pipelines
    std::vector<Joules> of_pipeline;
    std::vector<std::uint64_t> versions;  ///< by which each rank ran
    /// The same iteration of the same machines with every instruction at its highest clock.
    Seconds all_max_time{};
    Joules all_max_energy{};
  };

  /// \param spec   is valid
  /// \param truth  what every computation of its schedule really costs at each clock; one with
  /// other knobs, which are not emulated, ends the program
  EmulatedMachines(const JobSpec& spec, const Profile& truth, const Options& options);

  // What may go wrong.
  std::map<std::pair<int, int>, double> slow;  ///< factor of (pipeline, stage)
  /// A further factor.
  std::function<double(std::int64_t iteration, int pipeline, int stage)> slowness;
  /// By which a pipeline ends later than its computations explain.
  std::function<Seconds(int pipeline)> delay;
  /// Clocks that the GPU of (pipeline, stage) is held to, whatever is asked for.
  std::map<std::pair<int, int>, Megahertz> held;
  /// By which an iteration is longer outside of computations, such as a checkpoint.
  std::function<Seconds(std::int64_t iteration)> stall;
  /// Factor on all energies of an iteration, at all clocks alike, such as that of a hot room.
  std::function<double(std::int64_t iteration)> energy_factor;
  /// Energy that each GPU uses beside training in an iteration, such as that of another process.
  std::function<Joules(std::int64_t iteration)> energy_beside;
  /// Clocks that the GPUs of a stage do not have.
  std::map<int, std::vector<Megahertz>> lacking;
  /// Nothing of it goes wrong any more; clocks that GPUs lack, they lack.
  void heal();

  const JobSpec& spec() const { return spec_; }
  const Profile& truth() const { return truth_; }
  /// Of the GPUs of a stage, in any order.
  std::vector<Megahertz> clocks(int stage) const;
  /// In the order of `JobShape::index`.
  std::vector<RankCoordinates> places() const;

  /// By which assignment a rank runs; null: by none, at its highest clock.
  using AssignmentOf = std::function<const StageAssignment*(RankCoordinates)>;
  /// An iteration, with a report of each rank, in the order of `places`. The shards of a stage run
  /// by the assignment of the first of them.
  std::pair<Iteration, std::vector<IterationReport>> play(std::int64_t iteration,
                                                          const AssignmentOf& assignment_of);

 protected:
  std::mt19937_64& random() { return random_; }

 private:
  /// One pipeline in one iteration.
  struct PipelineRun {
    std::vector<StageRun> stages;
    std::vector<StageRun> at_all_max;
  };
  PipelineRun run(std::int64_t iteration, int pipeline, const AssignmentOf& assignment_of);
  Seconds makespan(const std::vector<StageRun>& stages) const;
  StageConditions conditions(std::int64_t iteration, int pipeline, int stage) const;
  IterationReport report(std::int64_t iteration, RankCoordinates rank,
                         const StageAssignment* assignment, const StageRun& run, Seconds time);
  double noisy();

  const JobSpec spec_;
  const Profile truth_;
  const Options options_;
  const Pipeline pipeline_;
  std::mt19937_64 random_;
  std::vector<Megahertz> clocks_;
  std::vector<GpuClock> running_;  ///< of each group; 0 MHz: no iteration was played
};

}  // namespace harpe::training
