#pragma once
/// \file
/// Choosing a setting while a long job runs, with no profiling phase: a bandit over the ordered
/// settings that pays for each switch and keeps a budget of slowdown at every moment.
///
/// Score: that of the selector (joules and seconds of a step, weighted). A setting not yet played
/// is tried if the model of setting_model.h expects it to improve on the best so far, in proportion
/// to the probability that the budget can carry it for ever (constrained expected improvement:
/// Gardner et al., ICML 2014). Among those played, the lowest confidence bound is played (Auer,
/// Cesa-Bianchi, Fischer 2002). It is played for a block of steps that doubles each time its
/// setting is played again, so that n steps hold O(log n) switches a setting (Arora, Dekel, Tewari,
/// ICML 2012). Steps right after a switch teach nothing, but count for the budget.
///
/// The budget. Let r be the reference: the mean time of a step at the highest setting, from the
/// first `reference_steps`. Let B be the budget, n the steps done, and X the excess: the sum over
/// steps at lower settings of (time - r), never below 0: what was saved is no credit, for a job
/// that became faster would seem to save. A step at a lower setting is begun only if
///     X + (w - 1) r <= B r (n + 1)                                                          (1)
/// where w is how many times r a step may take at any setting: for clocks the highest over the
/// lowest clock, since computation slows in proportion at most and the rest less.
/// Claim: X <= B r n after every step, whatever the times are within w r. Proof: by induction; n =
/// 0 gives 0 <= 0. A step at the highest setting leaves X and raises the right side. A step at a
/// lower one adds at most (w - 1) r to X (or lifts it to 0), so by (1) X <= B r (n + 1) after it,
/// the claim for n + 1. So total time <= (time of the steps at the highest setting) + r (the
/// others' number) + B r n: no prefix of the run is slower than (1 + B) times the highest setting
/// throughout, as far as r is that setting's time. A step beyond w r is none that a setting caused
/// (a stall); it counts in full, and the highest setting stays until (1) holds again.
///
/// Drift: the reference is taken again whenever the median step at the highest setting moved by
/// more than 5 %; what was learned of the settings is then forgotten, the excess is not.
///
/// Pure; not thread-safe; O(1) a step, O(n^3) a block for n settings. On GPUs with fewer than two
/// settings it stays where it is.

#include <optional>
#include <vector>

#include "harpe/zeus/power_limit/drift.h"
#include "harpe/zeus/power_limit/knob.h"
#include "harpe/zeus/power_limit/selector.h"

namespace harpe::zeus {

struct OnlineOptions {
  Selector selector{};        ///< not kMaxSlowdown: the budget says that
  double slowdown = 0.05;     ///< B, at least 0
  double worst_slowdown = 8;  ///< w, at least 1; usual GPUs: highest over lowest clock
  int reference_steps = 20;   ///< at least 2
  int settle_steps = 5;       ///< after a switch, not learned from; at least 0
  int block_steps = 20;       ///< of the first block of a setting, at least 1
};

class OnlineOptimizer {
 public:
  static Result<OnlineOptimizer> make(Knob knob, OnlineOptions options);

  /// The setting of the next step; the first is the highest. To be called before every step, with
  /// what the step before took (nothing before the first): seconds, and joules of all GPUs. A step
  /// whose seconds are no number of at least 0 counts as one of w r; whose joules are none, teaches
  /// nothing.
  std::size_t next(std::optional<Measurement> last);

  /// X and B r n of the header, in s.
  Seconds excess() const { return excess_; }
  Seconds allowance() const { return allowance_; }
  int switches() const { return switches_; }
  /// The setting with the best mean so far.
  std::size_t best() const { return best_; }
  const Knob& knob() const { return knob_; }

 private:
  /// What was learned of a setting.
  struct Arm {
    double steps = 0, score = 0, squares = 0, seconds = 0, joules = 0;  ///< sums over steps
    int blocks = 0;
    double mean() const { return score / steps; }
  };

  OnlineOptimizer(Knob knob, OnlineOptions options);

  void account(Seconds time, Joules energy);
  void learn(Seconds time, Joules energy);
  void begin_block();
  std::size_t pick();
  std::optional<std::size_t> untried() const;
  double bound(const Arm& arm) const;
  bool budget_holds(double steps_of_reserve) const;
  bool is_sustainable(std::size_t setting) const;
  void switch_to(std::size_t setting);

  Knob knob_;
  OnlineOptions options_;
  ScoreWeights weights_;
  std::vector<Arm> arms_;
  std::size_t current_ = 0, wanted_ = 0, best_ = 0;
  double steps_ = 0;  ///< done since the reference was known
  int settling_ = 0, left_in_block_ = 0, switches_ = 0;
  std::vector<double> reference_times_;
  Seconds reference_{};  ///< r; 0: not known yet
  Seconds excess_{}, allowance_{};
  std::optional<DriftDetector> drift_;
};

}  // namespace harpe::zeus
