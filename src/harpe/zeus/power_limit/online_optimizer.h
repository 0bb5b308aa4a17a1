#pragma once
/// \file
/// Optimizer that chooses a setting while a long job runs, without a profiling phase: a bandit over
/// the ordered settings that pays for each switch and keeps a budget of slowdown at every moment.
///
/// The score is that of the selector (joules and seconds of a step, weighted). A setting that was
/// not played is tried if the model of setting_model.h expects it to improve on the best so far, in
/// proportion to the probability that the budget can carry it for ever (constrained expected
/// improvement: Gardner et al., ICML 2014). Among the played settings, the one with the lowest
/// confidence bound is played (Auer, Cesa-Bianchi, Fischer 2002), for a block of steps that doubles
/// each time the setting is played again, so that n steps have O(log n) switches per setting
/// (Arora, Dekel, Tewari, ICML 2012). The optimizer learns nothing from steps right after a switch,
/// but they count for the budget.
///
/// The budget. Let r be the reference: the mean time of a step at the highest setting, from the
/// first `reference_steps`. Let B be the budget, n the number of completed steps, and X the excess:
/// the sum over steps at lower settings of (time - r), never below 0. Time saved is no credit,
/// because a job that became faster would seem to save. A step at a lower setting begins only if
///     X + (w - 1) r <= B r (n + 1)                                                          (1)
/// where w is the highest factor on r that a step may take at any setting: for clocks, the highest
/// over the lowest clock, because computation slows at most in proportion and the rest less.
/// Claim: X <= B r n after every step, for all step times up to w r. Proof by induction: n = 0
/// gives 0 <= 0. A step at the highest setting does not change X and raises the right side. A step
/// at a lower setting adds at most (w - 1) r to X (or raises it to 0), so by (1) X <= B r (n + 1)
/// after it, the claim for n + 1. So total time <= (time of the steps at the highest setting) + r
/// (number of the other steps) + B r n: no prefix of the run is slower than (1 + B) times a run at
/// the highest setting, if r is that setting's step time. A step longer than w r is not caused by a
/// setting (a stall). It counts in full, and the highest setting stays until (1) holds again.
///
/// Drift: the reference is measured again when the median step at the highest setting has moved by
/// more than 5 %. Then the scores of all settings are forgotten, but the excess is not.
///
/// Pure; not thread-safe; O(1) per step, O(n^3) per block for n settings. On GPUs with fewer than
/// two settings it changes nothing.

#include <optional>
#include <vector>

#include "harpe/zeus/power_limit/drift.h"
#include "harpe/zeus/power_limit/knob.h"
#include "harpe/zeus/power_limit/selector.h"

namespace harpe::zeus {

struct OnlineOptions {
  Selector selector{};        ///< not kMaxSlowdown: `slowdown` is the bound
  double slowdown = 0.05;     ///< B, at least 0
  double worst_slowdown = 8;  ///< w, at least 1; usually the highest over the lowest clock
  int reference_steps = 20;   ///< at least 2
  int settle_steps = 5;       ///< after a switch, not used for scores; at least 0
  int block_steps = 20;       ///< in the first block of a setting, at least 1
};

class OnlineOptimizer {
 public:
  static Result<OnlineOptimizer> make(Knob knob, OnlineOptions options);

  /// Returns the setting of the next step; the first is the highest. Must be called before every
  /// step.
  /// \param last  seconds, and joules of all GPUs, of the step before; nullopt before the first
  ///              step. If the seconds are not a number of at least 0, the step counts as w r; if
  ///              the joules are not, it is not used for scores.
  std::size_t next(std::optional<Measurement> last);

  /// Return X and B r n of the file comment, in s.
  Seconds excess() const { return excess_; }
  Seconds allowance() const { return allowance_; }
  int switches() const { return switches_; }
  /// Returns the setting with the best mean so far.
  std::size_t best() const { return best_; }
  const Knob& knob() const { return knob_; }

 private:
  /// Sums over the steps of a setting.
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
  double steps_ = 0;  ///< completed since the reference was known
  int settling_ = 0, left_in_block_ = 0, switches_ = 0;
  std::vector<double> reference_times_;
  Seconds reference_{};  ///< r; 0 until known
  Seconds excess_{}, allowance_{};
  std::optional<DriftDetector> drift_;
};

}  // namespace harpe::zeus
