#pragma once
/// \file
/// One iteration of a pipeline of an emulated cluster under a plan, with slowdown, noise and late
/// clocks.
///
///   EmulatedPipeline emulated(frontier.pipeline(), frontier.profile(), blocking_power, latency);
///   const std::size_t plan = HARPE_TRY(emulated.add(table.plans()[0]));
///   EmulatedPipeline::Clocks clocks = emulated.steady_clocks(plan);
///   EmulatedPipeline::Run run;
///   emulated.run({.plan = plan, .slowdown = 1.2}, clocks, run);
///
/// Times and energies are those of `predict`, by the same engine (frontier/stage_replay.h), times
/// the slowdown and the noise. All numbers are of one GPU of a stage: the tensor ranks of a stage
/// run in lockstep. Data are a structure of arrays in topological order, because a month of a
/// cluster has 10^10 instructions. A run takes O(instructions + dependencies), and allocates
/// nothing if `Run` and `Clocks` already have their size.
///
/// Thread safety: `run` and `draw` may be called from several threads, each with its own `Clocks`,
/// `Noise` and `Run`.

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/plan/frontier/stage_replay.h"
#include "harpe/plan/instruction/setting.h"
#include "harpe/plan/policy/plan_table.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/pipeline.h"

namespace harpe::lab {

class EmulatedPipeline {
 public:
  /// \param pipeline, profile  of a `Frontier`: one node for each part that has its own costs
  /// \param blocking_power     one per stage, in W per GPU
  EmulatedPipeline(const Pipeline& pipeline, const Profile& profile,
                   std::vector<Watts> blocking_power, LatencyByClock switch_latency);

  /// Adds a plan and returns its number. Fails if the plan is not one of this pipeline. A clock
  /// that was not measured has the cost of `at_setting`.
  Result<std::size_t> add(const plan::TablePlan& plan);
  /// Returns the number of the variant of a plan that runs while hot GPUs are limited to a clock:
  /// `plan` if no instruction is above that clock, otherwise a variant that is added once.
  std::size_t throttled(std::size_t plan, Megahertz held_to);
  /// Returns the lowest measured clock of a computation; 0 if there is none.
  Megahertz lowest_clock() const;

  std::size_t stages() const { return blocking_power_.size(); }
  std::size_t instructions() const { return rows_.size(); }
  /// Returns the first instruction of a stage; for the stage after the last, `instructions()`.
  std::size_t first_of_stage(std::size_t stage) const { return first_of_stage_[stage]; }
  Watts blocking_power(std::size_t stage) const { return blocking_power_[stage]; }

  /// Factors of time and energy of each instruction.
  struct Noise {
    std::vector<double> time, energy;
  };
  /// Draws noise of a relative standard deviation. The factors of an instruction depend only on
  /// `draws` and its position.
  /// \param deviation  at most `kMostNoise`
  void draw(std::uint64_t draws, double deviation, Noise& noise) const;
  static constexpr double kMostNoise = 0.2;  ///< low enough that no factor is near 0

  /// The setting of the GPUs of each stage, as a number; empty if clocks are never late.
  using Clocks = std::vector<plan::SettingState<int>>;
  /// Returns the clocks at the start of an iteration that follows iterations of the same plan.
  Clocks steady_clocks(std::size_t plan) const;

  struct Conditions {
    std::size_t plan = 0;
    double slowdown = 1;           ///< factor of time and energy of all computations
    const Noise* noise = nullptr;  ///< null: none
  };
  struct Run {
    std::vector<double> time, energy;  ///< of each instruction: seconds and joules of one GPU
    std::vector<double> end;           ///< of each instruction and transfer, seconds
    std::vector<Joules> effective;     ///< of each stage: sum of energy - blocking power x time
    Seconds makespan{0};
  };
  /// Runs an iteration. `clocks` are those at its start, and are set to those at its end.
  void run(const Conditions& conditions, Clocks& clocks, Run& run) const;

 private:
  struct PlanCosts {
    std::vector<int> setting;          ///< of each instruction; -1: unchanged
    std::vector<double> time, energy;  ///< at that setting
  };
  int setting_number(const InstructionSetting& setting);
  plan::InstructionCost cost_at(std::size_t instruction, int setting) const;
  void run_on_time(const PlanCosts& costs, const Conditions& conditions, Run& run) const;
  void run_late(std::size_t stage, const PlanCosts& costs, const Conditions& conditions,
                plan::SettingState<int>& gpu, Run& run) const;
  void place(Run& run) const;

  std::vector<Watts> blocking_power_;
  LatencyByClock latency_;
  bool is_late_;
  std::vector<std::vector<OperatingPoint>> points_;  ///< of each kind of instruction of a stage
  std::vector<std::size_t> rows_;                    ///< of each instruction, in `points_`
  std::vector<unsigned char> is_computation_;        ///< of each instruction: 1 if it slows down
  std::vector<std::size_t> first_of_stage_;
  std::vector<Seconds> transfers_;  ///< of the nodes after the instructions

  // The graph. Node order_[k] waits for the nodes from_[first_[k]] .. from_[first_[k + 1] - 1].
  std::vector<int> order_, first_, from_;
  std::vector<double> lag_;

  std::map<InstructionSetting, int> settings_;
  std::vector<InstructionSetting> setting_of_;                       ///< of each number
  std::vector<Seconds> latency_to_;                                  ///< of each setting
  std::vector<std::vector<plan::InstructionCost>> cost_of_setting_;  ///< [row][setting]
  std::vector<PlanCosts> plans_;
  std::map<std::pair<std::size_t, Megahertz>, std::size_t> variants_;  ///< of `throttled`
};

}  // namespace harpe::lab
