#pragma once
/// \file
/// A small pipeline in the order in which partial plans of it grow, see branch_and_bound.h.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harpe/frontier/switching.h"

namespace harpe {

/// The choices of an instruction, after each setting that its stage may have before.
struct ChoiceTable {
  std::vector<int> choice;               ///< of the search
  std::vector<int> setting;              ///< of each choice: its number on the stage
  std::vector<std::int64_t> time, cost;  ///< rows are settings before, columns choices
  std::int64_t shortest = 0, longest = 0;

  std::size_t size() const { return choice.size(); }
  std::size_t at(std::size_t before, std::size_t k) const { return before * choice.size() + k; }
};

struct StageList {
  std::vector<int> nodes;
  std::size_t settings = 1;
  std::vector<ChoiceTable> tables;  ///< one a node
};

/// An arc of the network, in the order in which partial plans grow.
struct Step {
  std::int32_t tail, head;
  std::int32_t network_arc;
  std::int64_t time = 0, cost = 0;  ///< of an arc without a choice
  int stage = -1;                   ///< of a computation
  std::size_t position = 0;         ///< in its list
  bool has_choice() const { return stage >= 0; }
};

/// Immutable. Refers to the search, whose settings are numbered anew on each stage.
class BranchSteps {
 public:
  /// \param is_free      settings are never late and need not dwell: a stage has one setting
  /// \param keeps_beaten  also choices that another beats in time and cost, although `is_free`
  BranchSteps(const SwitchingSearch& search, bool is_free, bool keeps_beaten);

  std::span<const StageList> stages() const { return stages_; }
  /// In a topological order of their tails.
  std::span<const Step> steps() const { return steps_; }
  const ChoiceTable& table(const Step& step) const {
    return stages_[step.stage].tables[step.position];
  }
  std::size_t last_step(std::size_t stage) const { return last_step_[stage]; }
  /// Shortest time from an event to the end, picoseconds.
  std::int64_t tail(std::int32_t event) const { return tails_[event]; }
  /// The events on whose times the steps from `step` on depend.
  std::span<const std::int32_t> live(std::size_t step) const { return live_[step]; }
  std::size_t events() const { return tails_.size(); }
  std::int32_t source() const { return network_.source; }
  std::int32_t sink() const { return network_.sink; }
  /// Of the slowest choices, each after the setting that holds it up most.
  std::int64_t longest_makespan() const;

 private:
  void make_stages(bool keeps_beaten);
  ChoiceTable table_of(int node, const std::vector<int>& settings, bool keeps_beaten) const;
  void make_steps(const SearchOrder& layout);
  void find_live_events();

  const SwitchingSearch& search_;
  const flow::Network& network_;
  bool is_free_;
  std::vector<StageList> stages_;
  std::vector<Step> steps_;
  std::vector<std::size_t> last_step_;           // of each stage
  std::vector<std::vector<std::int32_t>> live_;  // at each step
  EventTimes tails_;
};

}  // namespace harpe
