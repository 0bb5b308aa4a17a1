#pragma once
/// \file
/// The metric of a training after each of its epochs, and the probability that it reaches a target
/// in the remaining epochs.
///
/// The curve is extrapolated by an ensemble of saturating curves (as Domhan et al., IJCAI 2015):
/// start + progress x g(epoch), with g a power law, an exponential, a stretched exponential or a
/// logarithm, each with a few dozen fixed shapes. Start and progress (which is never negative) are
/// a weighted least-squares fit in which newer epochs weigh more. Shapes are weighted by how well
/// they fit, and half of the progress that they predict is assumed. The target counts as reached if
/// the metric of one epoch is beyond it: the scatter of single epochs, taken from second
/// differences, adds to the uncertainty of the curve itself.
///
/// No such curve predicts the end of a plateau, as by a drop of the learning rate or by grokking.
/// So with a probability that the caller sets, the curve has a jump, at a log-uniform epoch: the
/// longer the plateau has lasted, the less likely is a jump.
///
/// Results do not change if metrics and target are scaled or shifted together, or if their sign and
/// the direction change. Pure; O(points x shapes).

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace harpe::zeus {

struct MetricPoint {
  int epoch = 0;                      ///< from 1
  std::optional<double> metric = {};  ///< finite; nullopt if the metric was not a finite number
  friend bool operator==(const MetricPoint&, const MetricPoint&) = default;
};

/// Points by rising epochs. In a long training older points are thinned out.
class MetricCurve {
 public:
  static constexpr std::size_t kMostPoints = 96;

  /// Adds a point. If the epoch equals that of the newest point, the new point replaces it; if it
  /// is lower, nothing is added.
  /// \param metric  counts as missing if it is not finite
  void add(int epoch, double metric);
  void clear() { points_.clear(); }

  const std::vector<MetricPoint>& points() const { return points_; }
  bool empty() const { return points_.empty(); }
  /// Returns the number of points with a metric.
  int numbers() const;
  /// Returns the number of points without a metric at the end of the curve.
  int missing_at_end() const;
  /// Returns the epoch of the newest point; 0 if there is no point.
  int newest_epoch() const { return points_.empty() ? 0 : points_.back().epoch; }
  /// Returns the curve up to this epoch.
  MetricCurve until(int epoch) const;
  /// Returns the best metric up to this epoch; nullopt if there is none.
  std::optional<double> best_until(int epoch, bool higher_is_better) const;

  friend bool operator==(const MetricCurve&, const MetricCurve&) = default;

 private:
  std::vector<MetricPoint> points_;
};

struct MetricTarget {
  double metric = 0;
  bool higher_is_better = true;
  int last_epoch = 0;  ///< last epoch in which the target can be reached
};

/// A curve with fewer metrics than this has no forecast.
inline constexpr int kLeastMetrics = 4;

/// Returns the probability that the curve reaches its target in an epoch after its newest, up to
/// `last_epoch`. Nullopt if it has too few metrics. 1 if the target was reached, otherwise 0 if no
/// epoch is left.
/// \param jump_chance  prior probability that this curve has a jump at some epoch
std::optional<double> chance_to_reach(const MetricCurve& curve, const MetricTarget& target,
                                      double jump_chance);

/// Returns true if the curve has progressed as far as a converged one at the same share of its
/// epochs: at epoch e of `target.last_epoch` it is at least as good as the other at epoch e /
/// last_epoch of its own.
bool keeps_up(const MetricCurve& curve, const MetricCurve& converged, const MetricTarget& target);

// The rule that ends a training because its metric shows that it will not reach the target in its
// remaining epochs. The rule is wrong if the training would have reached it, so it is made to be
// hardly ever wrong.
//
// A training is ended if one of these holds:
// * It is unlikely to reach the target by its own curve (`chance_to_reach`), and it does not keep
//   up with any converged training of the job. The probability of a jump that no curve predicts is
//   learned from the converged trainings: from how many of them had one (a beta distribution).
//   While none has converged, the probability of a jump is one half, so that hardly any training is
//   ended, and none whose metric has never changed.
// * Its metric is missing (not a finite number) and stays missing: weights that are not numbers do
//   not recover.
//
// Pure; O(converged x points x shapes): 0.1 ms if the target is likely without a jump, otherwise 7
// ms with 16 converged trainings, on one core of a 2-core virtual machine.

/// A training whose chance is below this is ended.
inline constexpr double kLeastChance = 0.01;
/// Missing metrics in a row after which a training has diverged. A metric that is not defined yet
/// (0 / 0) or that overflows once recovers sooner.
inline constexpr int kMostMissing = 4;

/// Returns the probability that a curve of this job has a jump, learned from the converged ones.
double jump_chance(std::span<const MetricCurve* const> converged, const MetricTarget& target);

/// Returns true if a metric was measured in `kLeastMetrics` epochs, of this training or of a
/// converged one, and is now missing for more epochs in a row than `kMostMissing` and than twice
/// the longest earlier gap of this training and of the converged ones. If metrics are not measured
/// each epoch, no training has diverged.
bool has_diverged(const MetricCurve& curve, std::span<const MetricCurve* const> converged);

/// Returns true if the training should be ended by the rule above.
/// \param converged  curves of the job's trainings that reached the target, of any batch size
bool will_not_reach(const MetricCurve& curve, std::span<const MetricCurve* const> converged,
                    const MetricTarget& target);

}  // namespace harpe::zeus
