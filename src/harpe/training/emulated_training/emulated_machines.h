#pragma once
/// \file
/// The emulated GPUs of a training job with known true costs: computes the time and energy of its
/// iterations and the reports of its ranks.

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

// Execution of a stage's instructions on one GPU for one iteration, with known costs.
//
//   StageConditions now{.clock = run_before.clock};
//   const StageRun run = run_stage(schedule, costs, 0, assignment.clocks, now);

/// The clock of a GPU between two instructions.
using GpuClock = plan::SettingState<Megahertz>;

/// The conditions of one GPU in one iteration.
struct StageConditions {
  GpuClock clock;                     ///< before the first instruction
  std::optional<Megahertz> cap = {};  ///< limit on the clock, whatever is requested
  double slowness = 1;                ///< factor on all its times and energies
  Seconds switch_latency{0};          ///< from the request of a clock until it is in force
};

struct StageRun {
  /// Time and energy of each instruction, in the order of the stage's list.
  std::vector<OperatingPoint> instructions;
  GpuClock clock;          ///< after the last one
  bool throttled = false;  ///< true if it ran below a requested clock
};

/// Runs the list of a stage with the engine of an iteration (stage_replay.h), as `predict` does.
/// \param costs   contain every computation of the stage; between their clocks see `at_setting`.
///                Fixed-time instructions use the first point, or cost nothing if there is none
/// \param clocks  as in `StageAssignment`: one for all instructions, or one each; 0 MHz: unchanged
StageRun run_stage(const Schedule& schedule, const Profile& costs, int stage,
                   std::span<const Megahertz> clocks, const StageConditions& conditions);

/// Returns the totals of a stage's computations, as its rank reports them.
/// \param points  time and energy of each instruction, in the order of the stage's list
std::vector<InstructionTotals> totals_of(const Schedule& schedule, int stage,
                                         std::span<const OperatingPoint> points);

/// Emulated machines; deterministic by seed. Not thread-safe.
class EmulatedMachines {
 public:
  struct Options {
    Watts blocking_power{80};
    Seconds overhead{0.05};  ///< of an iteration, outside the pipeline
    double noise = 0.001;    ///< relative, of reported times and energies
    std::uint64_t seed = 1;
    Seconds switch_latency{0};  ///< see `run_stage`
  };
  /// The result of an iteration.
  struct Iteration {
    std::int64_t number = 0;
    Seconds time{};
    Joules energy{};  ///< all pipelines
    std::vector<Joules> of_pipeline;
    std::vector<std::uint64_t> versions;  ///< plan version of each rank
    /// The same iteration on the same machines with every instruction at its highest clock.
    Seconds all_max_time{};
    Joules all_max_energy{};
  };

  /// \param spec   must be valid
  /// \param truth  true costs of every computation of its schedule at each clock; costs with other
  /// knobs, which are not emulated, end the program
  EmulatedMachines(const JobSpec& spec, const Profile& truth, const Options& options);

  // Faults to emulate.
  std::map<std::pair<int, int>, double> slow;  ///< factor of (pipeline, stage)
  /// An additional factor.
  std::function<double(std::int64_t iteration, int pipeline, int stage)> slowness;
  /// Time by which a pipeline ends later than its computations explain.
  std::function<Seconds(int pipeline)> delay;
  /// Clocks to which the GPU of (pipeline, stage) is limited, whatever is requested.
  std::map<std::pair<int, int>, Megahertz> held;
  /// Additional time of an iteration outside of computations, such as a checkpoint.
  std::function<Seconds(std::int64_t iteration)> stall;
  /// Factor on all energies of an iteration, equal at all clocks, such as that of a hot room.
  std::function<double(std::int64_t iteration)> energy_factor;
  /// Energy that each GPU uses outside of training in an iteration, such as that of another
  /// process.
  std::function<Joules(std::int64_t iteration)> energy_beside;
  /// Clocks that the GPUs of a stage lack.
  std::map<int, std::vector<Megahertz>> lacking;
  /// Removes all faults, except `lacking`.
  void heal();

  const JobSpec& spec() const { return spec_; }
  const Profile& truth() const { return truth_; }
  /// Returns the clocks of the GPUs of a stage, in any order.
  std::vector<Megahertz> clocks(int stage) const;
  /// Returns all ranks, in the order of `JobShape::index`.
  std::vector<RankCoordinates> places() const;

  /// Returns the assignment of a rank; null for none: the rank runs at its highest clock.
  using AssignmentOf = std::function<const StageAssignment*(RankCoordinates)>;
  /// Runs an iteration. Returns its result and a report of each rank, in the order of `places`. All
  /// shards of a stage use the assignment of the first shard.
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
  std::vector<GpuClock> running_;  ///< of each group; 0 MHz before the first iteration
};

}  // namespace harpe::training
