#pragma once
/// \file
/// Times and effective energies of the profiled points of every instruction, and what a setting
/// that comes late adds to them.
///
/// A new setting is asked for when its instruction begins, and until it is in force the old one
/// still runs. If that takes L, a share w = min(1, L / t_old) of the instruction runs at the old
/// setting, so that it takes w t_old + (1 - w) t_new, and energy likewise. A plan must hold
/// whenever in [0, L] the setting changes, so that late changes may cost time or energy here but
/// never gain any. If L outlasts the instruction, those after it are late, too (late_settings.h). A
/// clock, a memory clock, a power limit or a label that changes is a setting that changes. An
/// iteration repeats: what comes before its first instruction is its last.

#include <span>
#include <vector>

#include "harpe/plan/frontier/late_settings.h"
#include "harpe/plan/frontier/search_order.h"

namespace harpe::plan {

/// What one late change costs beyond the instruction itself.
struct LateChange {
  std::int64_t time = 0;  ///< picoseconds
  std::int64_t cost = 0;  ///< effective energy, in `Problem::cost_unit`
};

/// One of all profiled points (an index) for every pipeline node. A point that another beats in
/// time and energy may be worth having here, where it saves a change.
using PointChoices = std::vector<int>;

/// Prices choices of points. Does not change after it is constructed.
class PointCosts {
 public:
  /// A profiled point of a computation.
  struct Choice {
    OperatingPoint point;
    int setting = 0;                  ///< its number among the settings of all choices
    std::int64_t time = 0, cost = 0;  ///< as in `Option`
  };

  /// A search looks up late changes in a table of settings times settings for each instruction of
  /// the profile. To price one choice, the table would take longer than the changes themselves.
  enum class Use : unsigned char { kSearch, kPriceOnce };

  PointCosts(const SearchOrder& layout, LatencyByClock latency, Use use = Use::kSearch);

  /// Effective energy, late changes included.
  std::int64_t cost(const PointChoices& choices) const;
  /// What a choice costs more or less than the next, on average.
  double average_step() const;
  /// What every pipeline node takes, its late change included, picoseconds.
  std::vector<std::int64_t> durations(const PointChoices& choices) const;
  /// The late change ahead of every pipeline node.
  std::vector<LateChange> changes(const PointChoices& choices) const;
  std::vector<OperatingPoint> points(const PointChoices& choices) const;

  PointChoices from(const Assignment& assignment) const;
  /// See `Frontier::plan_of_clocks`.
  Result<PointChoices> at_clocks(const std::vector<std::vector<Megahertz>>& clocks,
                                 const std::vector<std::vector<Knobs>>& knobs) const;
  /// Every instruction at its highest clock, see `all_max_point`.
  PointChoices all_max() const;
  /// All-max; every instruction at its fastest point; every stage at one setting, that of its least
  /// total time (not where a stage has no setting common to all its instructions).
  std::vector<PointChoices> simple() const;
  /// All computations at one setting, for each that all of them have. No clock ever changes.
  std::vector<PointChoices> at_one_setting() const;

  const SearchOrder& layout() const { return layout_; }
  int stages() const { return static_cast<int>(stage_nodes_.size()); }
  /// True if settings are never late.
  bool is_free() const { return latency_.longest() <= Seconds{0}; }
  /// The computations of a stage, in the order of its list.
  std::span<const int> computations(int stage) const { return stage_nodes_[stage]; }
  const std::vector<Choice>& choices_of(int node) const {
    return choices_[problem_.table[static_cast<std::size_t>(node)]];
  }
  /// The choice of an instruction at a setting; -1 if it was not measured.
  int choice_at(int node, int setting) const {
    return choice_at_[problem_.table[static_cast<std::size_t>(node)]][setting];
  }
  const Choice& choice(const PointChoices& choices, int node) const {
    return choices_of(node)[choices[node]];
  }
  int setting(const PointChoices& choices, int node) const { return choice(choices, node).setting; }
  /// Returns what a choice for an instruction costs beyond itself when it follows another setting.
  /// O(1), or O(log points) if the profile has too many settings for a table.
  LateChange change(int node, int choice, int setting_before) const;
  /// True if a change can outlast the instruction that it was asked for.
  bool outlasts() const { return outlasts_; }
  /// Returns what a choice costs beyond itself in a state of its stage, and takes the state past
  /// it. As `change` if nothing is late when it begins.
  LateChange next(int node, int choice, LateSettings& state) const;
  /// Sets the late changes of a stage, of which only `choices` of its own computations are read.
  void set_changes(int stage, const PointChoices& choices, std::vector<LateChange>& changes) const;

 private:
  void number_settings();
  void tabulate_changes();
  LateChange worst_change(int node, const Choice& option, int setting_before) const;
  LateChange worst_of(int node, const Choice& option, LateSettings& state) const;
  template <class Consider>
  void each_point_at(int node, int setting, const Consider& consider) const;
  void find_outlasting();

  const SearchOrder& layout_;
  const Problem& problem_;
  LatencyByClock latency_;
  std::vector<std::vector<Choice>> choices_;  // of each table, settings rising
  std::vector<InstructionSetting> settings_;  // of all choices, rising
  std::vector<std::vector<int>> choice_at_;   // of each table and setting; -1: not measured
  /// Of each table, by choice and setting before. Empty if that would be too many, or
  /// if there is no search.
  std::vector<std::vector<LateChange>> changes_;
  bool outlasts_ = false;
  std::vector<int> all_max_;                   // choice of each table
  std::vector<std::vector<int>> stage_nodes_;  // computations of each stage, in order
};

}  // namespace harpe::plan
