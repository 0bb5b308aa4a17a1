#pragma once
/// \file
/// Times and effective energies of the profiled points of every instruction, and what a setting
/// that comes late adds to them.
///
/// A new setting is asked for when its instruction begins, and until it is in force the old one
/// still runs. If that takes L, a share w = min(1, L / t_old) of the instruction runs at the old
/// setting, so that it takes w t_old + (1 - w) t_new, and energy likewise. A plan must hold
/// whenever in [0, L] the setting changes, so that late changes may cost time or energy here but
/// never gain any. If L outlasts the instruction, those after it are late, too (`LateSettings`). A
/// clock, a memory clock, a power limit or a label that changes is a setting that changes. An
/// iteration repeats: what comes before its first instruction is its last.

#include <span>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/plan/frontier/search_order.h"

namespace harpe::plan {

/// The settings that may be in force on a stage between two of its instructions. The caller numbers
/// settings.
///
/// A requested setting comes into force at most its latency L later. Until then any setting that
/// was requested before may be in force, even after the end of the instruction that the new one was
/// requested for. So each old setting x has a time R_x for which it may still be in force:
///   * a request for a setting with latency L lowers R_x to min(R_x, L) for every old setting, and
///     the setting requested before becomes an old one with R = L;
///   * an instruction reduces every R_x by the least time that it can take. Waiting and fixed-time
///     instructions do not, because the time that they take is uncertain.
///
/// An instruction may cost more than at the requested setting d. With t_x its time and v_x its time
/// or effective energy at x, the excess is at most
///   the integral over s >= 0 of max over {x: R_x > s} of (v_x - v_d) / t_x, and at most
///   max over x of v_x - v_d; if this is negative, 0. With one old setting it is
///   min(1, R_x / t_x) (v_x - v_d). This is never too little. It may be too much if the old
///   settings include one with the most energy per second and another with the most per
///   instruction.
/// A setting that was not measured for the instruction counts as its neighbours: as the worse of
/// them if it is the only old setting, else as if all of them were old.
///
/// Example: a change is 30 ms late; instructions take 20 ms at the old setting and 16 ms at the new
/// one. The first may run wholly at the old one and take 4 ms more. If it took 16 ms, 14 ms are
/// left for the second: 14 / 20 of it may run at the old setting, so that it takes 2.8 ms more.
class LateSettings {
 public:
  struct Old {
    int setting = 0;
    double left = 0;  ///< s; positive
    friend bool operator==(const Old&, const Old&) = default;
  };

  /// A setting that has been in force for long.
  explicit LateSettings(int setting = -1) : setting_(setting) {}

  void ask(int setting, Seconds latency);
  /// Reduces the time that is left for each old setting.
  void pass(Seconds time);

  int setting() const { return setting_; }  ///< that was asked for last
  std::span<const Old> old() const { return old_; }
  friend bool operator==(const LateSettings&, const LateSettings&) = default;

 private:
  int setting_;
  std::vector<Old> old_;  // each setting once, the one asked for never
};

/// An instruction at an old setting.
struct AtOldSetting {
  double left = 0;  ///< s: for how long the setting may still be in force
  double time = 0;  ///< s: of the whole instruction
  double more = 0;  ///< time or cost of the whole instruction, above that at the setting asked for
};
/// Returns the most that the instruction may cost more, at least 0, in the unit of `more`. Reorders
/// its argument. O(n log n)
double most_more(std::span<AtOldSetting> old);
/// The same of one old setting.
double most_more(const AtOldSetting& old);

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
