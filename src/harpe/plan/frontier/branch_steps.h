#pragma once
/// \file
/// The steps by which partial plans of a small pipeline grow, see branch_and_bound.h.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harpe/plan/frontier/switching.h"

namespace harpe::plan {

/// The choices of an instruction, with their time and cost after each setting of its stage.
struct ChoiceTable {
  std::vector<int> choice;               ///< index in `PointCosts::choices_of`
  std::vector<int> setting;              ///< number of its setting on the stage
  std::vector<std::int64_t> time, cost;  ///< rows are settings before, columns choices
  std::int64_t shortest = 0, longest = 0;

  std::size_t size() const { return choice.size(); }
  std::size_t at(std::size_t before, std::size_t k) const { return before * choice.size() + k; }
};

/// The computations of a stage, in order.
struct StageList {
  std::vector<int> nodes;
  std::size_t settings = 1;
  std::vector<int> numbers;         ///< of its settings, in the search; empty if switching is free
  std::vector<ChoiceTable> tables;  ///< one a node
};

/// An arc of the network. Partial plans take them one after the other.
struct Step {
  std::int32_t tail, head;
  std::int32_t network_arc;
  std::int64_t time = 0, cost = 0;  ///< if it has no choice
  int stage = -1;                   ///< of a computation
  std::size_t position = 0;         ///< in its list
  bool has_choice() const { return stage >= 0; }
};

/// All steps of a pipeline. Settings are numbered from 0 on each stage. Immutable; refers to the
/// search.
class BranchSteps {
 public:
  /// If switching is free, a stage has one setting.
  /// \param keeps_beaten  even then keeps choices that another one beats in time and cost
  BranchSteps(const SwitchingSearch& search, bool keeps_beaten);

  std::span<const StageList> stages() const { return stages_; }
  /// Steps in a topological order of their tails.
  std::span<const Step> steps() const { return steps_; }
  const ChoiceTable& table(const Step& step) const {
    return stages_[step.stage].tables[step.position];
  }
  std::size_t last_step(std::size_t stage) const { return last_step_[stage]; }
  /// Returns the shortest time from an event to the end, picoseconds.
  std::int64_t tail(std::int32_t event) const { return tails_[event]; }
  /// Returns the events whose times matter to the steps from `step` on.
  std::span<const std::int32_t> live(std::size_t step) const { return live_[step]; }
  std::size_t events() const { return tails_.size(); }
  std::int32_t source() const { return network_.source; }
  std::int32_t sink() const { return network_.sink; }
  /// Returns the makespan if each instruction takes as long as it can.
  std::int64_t longest_makespan() const;

 private:
  void make_stages(bool keeps_beaten);
  ChoiceTable table_of(int node, const std::vector<int>& settings, bool keeps_beaten) const;
  void make_steps(const SearchOrder& layout);
  void find_live_events();

  const PointCosts& costs_;
  const flow::Network& network_;
  bool is_free_;
  std::vector<StageList> stages_;
  std::vector<Step> steps_;
  std::vector<std::size_t> last_step_;           // of each stage
  std::vector<std::vector<std::int32_t>> live_;  // at each step
  EventTimes tails_;
};

}  // namespace harpe::plan
