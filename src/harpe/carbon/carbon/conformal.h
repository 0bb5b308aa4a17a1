#pragma once
/// \file
/// Forecast intervals that reach their nominal coverage for any distribution of the forecaster's
/// errors: adaptive conformal inference.
///
/// For each horizon, the score is the error (logarithm) divided by its usual size at that hour of
/// the day. The ends of the interval are the quantiles `low` and 1 - `high` of the scores of the
/// last weeks, each end by itself. After each value
///
///     low += rate (share - missed below),    high += rate (share - missed above)
///
/// with share = (1 - coverage) / 2, coverage 80 %: an end that is missed too often moves outward,
/// so in the long run each end is missed at its nominal rate, without any assumption on the errors
/// (for n values to within (1 + rate) / (rate n), if they were known at once; a value k steps ahead
/// is known k steps late).
///
/// Source: Gibbs and Candes, Adaptive Conformal Inference Under Distribution Shift, NeurIPS 2021,
/// with one level for each end and scores scaled by hour.

#include <span>
#include <vector>

#include "harpe/carbon/carbon/forecaster.h"

namespace harpe::carbon {

/// Adaptive forecast intervals. Not thread-safe; a step costs O(horizon log window) and moves
/// O(horizon window) bytes.
class ConformalIntervals {
 public:
  explicit ConformalIntervals(const ForecastGrid& grid);

  /// Reads the newest value of the history, and scores the forecasts that were issued for it.
  void observe(const LogHistory& history);
  /// Computes the interval of each forecast made after the newest observed value; call it at most
  /// once for each value. NaN if there are too few scores of that horizon yet. Both ends may be on
  /// one side of the forecast if its errors had one sign for long; the lower end is never above the
  /// upper.
  void issue(const LogHistory& history, std::span<const double> ahead, std::span<double> lower,
             std::span<double> upper);

 private:
  struct Issue {
    std::vector<double> ahead, lower, upper, scale;  ///< empty if none was issued
  };
  struct Horizon {
    std::vector<double> sorted;  ///< the scores of the window
    std::vector<double> ring;    ///< the same, in order of arrival
    std::size_t next = 0;        ///< position to replace, once the window is full
    double low = 0, high = 0;    ///< levels
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
