#pragma once
/// \file
/// Intervals around forecasts that cover what they promise, whatever the forecaster's errors are
/// like: adaptive conformal inference.
///
/// For each horizon, what is scored is the error (logarithm) over its usual size at that hour of
/// the day. Of the scores of the last weeks the interval's ends are the quantiles `low` and 1 -
/// `high`, each end by itself. After each value
///
///     low += rate (share - missed below),    high += rate (share - missed above)
///
/// with share = (1 - coverage) / 2, coverage 80 %: an end that is missed too often moves outward
/// until it is not, so in the long run each end is missed as often as promised, without any
/// assumption on the errors (for n values to within (1 + rate) / (rate n), were they known at once;
/// a value k steps ahead is known k steps late).
///
/// Source: Gibbs and Candes, Adaptive Conformal Inference Under Distribution Shift, NeurIPS 2021,
/// with one level an end and scores scaled by hour.

#include <span>
#include <vector>

#include "harpe/carbon/carbon/forecaster.h"

namespace harpe::carbon {

/// Not thread safe; a step costs O(horizon log window) and moves O(horizon window) bytes.
class ConformalIntervals {
 public:
  explicit ConformalIntervals(const ForecastGrid& grid);

  /// Takes the newest value of the history: forecasts that were issued for it are scored.
  void observe(const LogHistory& history);
  /// The interval of each forecast made after the newest value observed; to be called once for it,
  /// or not at all. NaN where there are too few scores of that horizon yet. Ends may cross the
  /// forecast where that was one-sided wrong for long; the lower is never above the upper.
  void issue(const LogHistory& history, std::span<const double> ahead, std::span<double> lower,
             std::span<double> upper);

 private:
  struct Issue {
    std::vector<double> ahead, lower, upper, scale;  ///< empty: none was made
  };
  struct Horizon {
    std::vector<double> sorted;                        ///< the scores of the window
    std::vector<double> ring;                          ///< the same as they came
    std::size_t next = 0;                              ///< to be replaced, once the window is full
    double low = 0, high = 0;                          ///< levels
    std::vector<double> size_at_slot, weight_at_slot;  ///< discounted sums of absolute errors
    double size = 0, weight = 0;
  };

  void score(Horizon& horizon, const Issue& issue, std::size_t k, double value, std::size_t slot);
  double rate_of(std::size_t k) const;
  double usual_size(const Horizon& horizon, std::size_t slot) const;

  ForecastGrid grid_;
  double share_, day_decay_, step_decay_;
  std::size_t window_;
  std::vector<Horizon> horizons_;
  std::vector<Issue> issues_;  ///< of step i at i % horizon
  std::size_t steps_ = 0;
};

}  // namespace harpe::carbon
