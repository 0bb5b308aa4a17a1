#pragma once
/// \file
/// Times and effective energies of the profiled points of every instruction, and the additional
/// time and energy of late changes of settings.
///
/// A new setting is requested when its instruction begins. Until it is in force, the old setting
/// still runs. If this takes L, a share w = min(1, L / t_old) of the instruction runs at the old
/// setting, so the instruction takes w t_old + (1 - w) t_new, and energy likewise. A plan must hold
/// for every delay in [0, L], so a late change may cost time or energy here but never saves any. If
/// L is longer than the instruction, the next instructions are late, too (`LateSettings`). A change
/// of the clock, the memory clock, the power limit or the label is a change of the setting. An
/// iteration repeats, so its last instruction precedes its first one.

#include <span>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/plan/frontier/search_order.h"

namespace harpe::plan {

/// The settings that may be in force on a stage between two of its instructions. The caller numbers
/// settings.
///
/// A requested setting is in force after its latency L at the latest. Until then any setting that
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
///   min(1, R_x / t_x) (v_x - v_d). This is never too low. It may be too high if one old setting
///   has the highest energy per second and another one the highest energy per instruction.
/// A setting that was not measured for the instruction is replaced by its measured neighbours: by
/// the worse of them if it is the only old setting, else by all of them as old settings.
///
/// Example: a change is 30 ms late; instructions take 20 ms at the old setting and 16 ms at the new
/// one. The first instruction may run completely at the old setting and take 4 ms more. If it takes
/// 16 ms, 14 ms are left for the second: 14 / 20 of it may run at the old setting and add 2.8 ms.
class LateSettings {
 public:
  struct Old {
    int setting = 0;
    double left = 0;  ///< s: remaining time in which it may be in force; positive
    friend bool operator==(const Old&, const Old&) = default;
  };

  /// Starts with a setting in force and no old settings.
  explicit LateSettings(int setting = -1) : setting_(setting) {}

  void ask(int setting, Seconds latency);
  /// Reduces the remaining time of each old setting.
  void pass(Seconds time);

  int setting() const { return setting_; }  ///< the setting that was requested last
  std::span<const Old> old() const { return old_; }
  friend bool operator==(const LateSettings&, const LateSettings&) = default;

 private:
  int setting_;
  std::vector<Old> old_;  // each setting at most once; never the requested setting
};

/// The time and cost of an instruction at an old setting.
struct AtOldSetting {
  double left = 0;  ///< s: remaining time in which the setting may be in force
  double time = 0;  ///< s: time of the whole instruction
  double more = 0;  ///< excess of the whole instruction's time or cost over the requested setting
};
/// Returns the largest possible excess of the instruction, at least 0, in the unit of `more`.
/// Reorders its argument. O(n log n)
double most_more(std::span<AtOldSetting> old);
/// Returns the largest possible excess with one old setting.
double most_more(const AtOldSetting& old);

/// The additional time and cost of one late change.
struct LateChange {
  std::int64_t time = 0;  ///< picoseconds
  std::int64_t cost = 0;  ///< effective energy, in `Problem::cost_unit`
};

/// The index of a profiled point for every pipeline node. A point that is worse than another in
/// time and energy may be a good choice here if it avoids a change.
using PointChoices = std::vector<int>;

/// Calculator of the time and cost of choices of points. Immutable after construction.
class PointCosts {
 public:
  /// A profiled point of a computation.
  struct Choice {
    OperatingPoint point;
    int setting = 0;                  ///< number of its setting among those of all choices
    std::int64_t time = 0, cost = 0;  ///< as in `Option`
  };

  /// A search looks up late changes in a table of choices times settings for each instruction of
  /// the profile. Building the table takes longer than computing the changes of one plan.
  enum class Use : unsigned char { kSearch, kPriceOnce };

  PointCosts(const SearchOrder& layout, LatencyByClock latency, Use use = Use::kSearch);

  /// Returns the effective energy, late changes included.
  std::int64_t cost(const PointChoices& choices) const;
  /// Returns the average absolute difference between the costs of two successive choices.
  double average_step() const;
  /// Returns the time of every pipeline node in picoseconds, its late change included.
  std::vector<std::int64_t> durations(const PointChoices& choices) const;
  /// Returns the late change before every pipeline node.
  std::vector<LateChange> changes(const PointChoices& choices) const;
  std::vector<OperatingPoint> points(const PointChoices& choices) const;

  PointChoices from(const Assignment& assignment) const;
  /// See `Frontier::plan_of_clocks`.
  Result<PointChoices> at_clocks(const std::vector<std::vector<Megahertz>>& clocks,
                                 const std::vector<std::vector<Knobs>>& knobs) const;
  /// Returns every instruction at its highest clock, see `all_max_point`.
  PointChoices all_max() const;
  /// Returns all-max, every instruction at its fastest point, and every stage at the one setting
  /// with the least total time. The last is omitted if some stage has no setting that was measured
  /// for all its computations.
  std::vector<PointChoices> simple() const;
  /// Returns, for each setting that all computations have, all computations at this setting. Their
  /// settings never change.
  std::vector<PointChoices> at_one_setting() const;

  const SearchOrder& layout() const { return layout_; }
  int stages() const { return static_cast<int>(stage_nodes_.size()); }
  /// Returns true if settings are never late.
  bool is_free() const { return latency_.longest() <= Seconds{0}; }
  /// Returns the computations of a stage, in list order.
  std::span<const int> computations(int stage) const { return stage_nodes_[stage]; }
  const std::vector<Choice>& choices_of(int node) const {
    return choices_[problem_.table[static_cast<std::size_t>(node)]];
  }
  /// Returns the choice of an instruction at a setting; -1 if the setting was not measured.
  int choice_at(int node, int setting) const {
    return choice_at_[problem_.table[static_cast<std::size_t>(node)]][setting];
  }
  const Choice& choice(const PointChoices& choices, int node) const {
    return choices_of(node)[choices[node]];
  }
  int setting(const PointChoices& choices, int node) const { return choice(choices, node).setting; }
  /// Returns the late change of a choice that follows another setting. O(1), or O(log points) if
  /// the profile has too many settings for a table.
  LateChange change(int node, int choice, int setting_before) const;
  /// Returns true if a change can take longer than the instruction that it was requested for.
  bool outlasts() const { return outlasts_; }
  /// Returns the late change of a choice in a state of its stage, and advances the state past the
  /// instruction. Equals `change` if no old setting is in the state.
  LateChange next(int node, int choice, LateSettings& state) const;
  /// Sets the late changes of a stage. Reads only the `choices` of the computations of this stage.
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
  std::vector<std::vector<Choice>> choices_;  // for each table, by rising setting
  std::vector<InstructionSetting> settings_;  // settings of all choices, rising
  std::vector<std::vector<int>> choice_at_;   // for each table and setting; -1: not measured
  /// Late changes for each table, by choice and setting before. Empty if the table would be too
  /// large, or with `Use::kPriceOnce`.
  std::vector<std::vector<LateChange>> changes_;
  bool outlasts_ = false;
  std::vector<int> all_max_;                   // choice of each table
  std::vector<std::vector<int>> stage_nodes_;  // computations of each stage, in list order
};

}  // namespace harpe::plan
